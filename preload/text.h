/* Text without printf: the preload formats a line or a path in a fixed buffer; what does not fit is
 * cut. */
#ifndef PRELOAD_TEXT_H
#define PRELOAD_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
	size_t n;
	char s[4096]; /* always zero-terminated */
};

static inline void text_bytes(struct text *t, const char *s, size_t n)
{
	if (n > sizeof(t->s) - 1 - t->n)
		n = sizeof(t->s) - 1 - t->n;
	memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = 0;
}

static inline void text_str(struct text *t, const char *s)
{
	text_bytes(t, s, strlen(s));
}

static inline void text_number(struct text *t, uint64_t v)
{
	char digits[24];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + v % 10);
	while (v /= 10);
	text_bytes(t, digits + i, sizeof(digits) - i);
}

/* 1610612736 -> "1.5 GiB": one decimal, rounded */
static inline void text_size(struct text *t, uint64_t bytes)
{
	static const char *const unit[] = { " B", " KiB", " MiB", " GiB", " TiB" };
	unsigned u = 0;
	uint64_t tenths;

	while (u < 4 && bytes >> (10 * (u + 1)))
		u++;
	if (u == 0) {
		text_number(t, bytes);
	} else {
		tenths = (bytes >> (10 * u)) * 10 +
			 (((bytes & ((1ull << (10 * u)) - 1)) * 10 + (1ull << (10 * u - 1))) >>
			  (10 * u));
		text_number(t, tenths / 10);
		text_bytes(t, ".", 1);
		text_number(t, tenths % 10);
	}
	text_str(t, unit[u]);
}

#endif
