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
