#include "util/base64.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

static int digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '-' || c == '+')
		return 62;
	return c == '_' || c == '/' ? 63 : -1;
}

char *base64_decode(const char *text, size_t *length)
{
	char *out = xcalloc(1, strlen(text) + 1);
	unsigned held = 0, bits = 0;

	*length = 0;
	for (; *text && *text != '='; text++) {
		int digit = digit_value(*text);

		if (digit < 0) {
			free(out);
			return NULL;
		}
		held = (held << 6 | (unsigned)digit) & 0xffffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out[(*length)++] = (char)(held >> bits);
		}
	}
	return out;
}

void base64_encode(struct buf *to, const void *data, size_t length)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = data;

	for (size_t i = 0; i < length; i += 3) {
		size_t have = length - i < 3 ? length - i : 3;
		unsigned v = (unsigned)p[i] << 16 | (have > 1 ? (unsigned)p[i + 1] << 8 : 0) |
			     (have > 2 ? p[i + 2] : 0);
		char four[] = { digits[v >> 18], digits[v >> 12 & 63],
				have > 1 ? digits[v >> 6 & 63] : '=',
				have > 2 ? digits[v & 63] : '=' };

		buf_add(to, four, sizeof(four));
	}
}
