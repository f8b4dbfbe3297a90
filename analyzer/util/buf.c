#include "util/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `length` bytes more and the end. */
static void reserve(struct buf *b, size_t length)
{
	if (b->room - b->length > length)
		return;
	b->room = (b->length + length + 1) * 2;
	b->text = xrealloc(b->text, b->room, 1);
}

void buf_add(struct buf *b, const void *text, size_t length)
{
	reserve(b, length);
	if (length)
		memcpy(b->text + b->length, text, length);
	b->length += length;
	b->text[b->length] = '\0';
}

void buf_addf(struct buf *b, const char *format, ...)
{
	char small[256];
	va_list args, again;
	int n;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(small, sizeof(small), format, args);
	va_end(args);
	if (n < 0)
		BUG("format");
	if ((size_t)n < sizeof(small)) {
		buf_add(b, small, (size_t)n);
	} else {
		char *large = xcalloc((size_t)n + 1, 1);

		vsnprintf(large, (size_t)n + 1, format, again);
		buf_add(b, large, (size_t)n);
		free(large);
	}
	va_end(again);
}

/* Length of the UTF-8 sequence at `s`, or 0 if it is not one. *code is its code point. */
static size_t utf8_sequence(const unsigned char *s, size_t left, uint32_t *code)
{
	static const uint32_t smallest_code[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = 0;

	if (s[0] < 0x80)
		n = 1;
	else if (s[0] >= 0xc2 && s[0] < 0xf5)
		n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (!n || n > left)
		return 0;
	*code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if (!utf8_continues((char)s[i]))
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (*code < smallest_code[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
		return 0;
	return n;
}

/* Is the code point a control character: cursor, colour, line break or text direction? */
static int is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

/* The length of the colour that begins at `s` ("\033[1;31m"), as pages have them, or 0. */
static size_t colour_at(const unsigned char *s, size_t left)
{
	size_t n = 2;

	if (left < 3 || s[0] != 0x1b || s[1] != '[')
		return 0;
	while (n < left && n < 12 && ((s[n] >= '0' && s[n] <= '9') || s[n] == ';'))
		n++;
	return n < left && s[n] == 'm' ? n + 1 : 0;
}

/* How many bytes from `s` are printable ASCII, which are copied unchanged. */
static size_t plain_run(const unsigned char *s, size_t left)
{
	size_t n = 0;

	while (n < left && s[n] >= 0x20 && s[n] < 0x7f)
		n++;
	return n;
}

enum cleaning { VALID, CLEAN, PAGE };

static void add_utf8(struct buf *b, struct str text, enum cleaning mode)
{
	const unsigned char *s = (const unsigned char *)text.at;
	size_t i = 0;

	if (text.length)
		reserve(b, text.length);
	while (i < text.length) {
		uint32_t code = 0;
		size_t run = plain_run(s + i, text.length - i), n;

		buf_add(b, s + i, run);
		i += run;
		if (i == text.length)
			break;
		n = utf8_sequence(s + i, text.length - i, &code);
		if (mode == PAGE && (code == '\n' || code == '\t'))
			buf_add(b, s + i, 1);
		else if (mode == PAGE && code == 0x1b && (n = colour_at(s + i, text.length - i)))
			buf_add(b, s + i, n);
		else if (!n && code != 0x1b)
			buf_puts(b, "\xef\xbf\xbd");
		else if (mode != VALID && is_control(code) && code < 0x100)
			buf_add(b, "?", 1);
		else if (mode != VALID && is_control(code))
			buf_addf(b, "\\u%04x", code);
		else
			buf_add(b, s + i, n);
		i += n ? n : 1;
	}
}

void buf_add_utf8(struct buf *b, struct str text)
{
	add_utf8(b, text, VALID);
}

void buf_add_clean(struct buf *b, struct str text)
{
	add_utf8(b, text, CLEAN);
}

void buf_add_page(struct buf *b, struct str text)
{
	add_utf8(b, text, PAGE);
}

char *buf_take(struct buf *b)
{
	char *text = b->text ? xrealloc(b->text, b->length + 1, 1) : xstrdup("");

	*b = (struct buf){ 0 };
	return text;
}

void buf_release(struct buf *b)
{
	free(b->text);
	*b = (struct buf){ 0 };
}

size_t utf8_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += !utf8_continues(*text);
	return width;
}
