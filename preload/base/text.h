/* Text without printf: the preload formats a line or a path in a fixed buffer; a longer text is
 * cut. */
#ifndef PRELOAD_TEXT_H
#define PRELOAD_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A path, or a line with a path. It is too large for the stack of a thread of the job: use it as a
 * static variable or a member. */
struct text {
	size_t n;
	char s[4096]; /* always zero-terminated */
};

/* Any text without a path. */
struct short_text {
	size_t n;
	char s[400];
};

/* Appends to a `struct text` or a `struct short_text`. */
#define text_bytes(t, from, length) text_append((t)->s, sizeof((t)->s), &(t)->n, from, length)
#define text_str(t, from) text_append_str((t)->s, sizeof((t)->s), &(t)->n, from)
#define text_number(t, value) text_append_number((t)->s, sizeof((t)->s), &(t)->n, value)
#define text_size(t, bytes) text_append_size((t)->s, sizeof((t)->s), &(t)->n, bytes)

static inline void text_append(char *s, size_t room, size_t *at, const char *from, size_t n)
{
	if (n > room - 1 - *at)
		n = room - 1 - *at;
	memcpy(s + *at, from, n);
	*at += n;
	s[*at] = 0;
}

static inline void text_append_str(char *s, size_t room, size_t *at, const char *from)
{
	text_append(s, room, at, from, strlen(from));
}

static inline void text_append_number(char *s, size_t room, size_t *at, uint64_t v)
{
	char digits[24];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + v % 10);
	while (v /= 10);
	text_append(s, room, at, digits + i, sizeof(digits) - i);
}

/* 1610612736 -> "1.5 GiB": one decimal, rounded */
static inline void text_append_size(char *s, size_t room, size_t *at, uint64_t bytes)
{
	static const char *const unit[] = { " B", " KiB", " MiB", " GiB", " TiB" };
	unsigned u = 0;
	uint64_t tenths;

	while (u < 4 && bytes >> (10 * (u + 1)))
		u++;
	if (u == 0) {
		text_append_number(s, room, at, bytes);
	} else {
		tenths = (bytes >> (10 * u)) * 10 +
			 (((bytes & ((1ull << (10 * u)) - 1)) * 10 + (1ull << (10 * u - 1))) >>
			  (10 * u));
		text_append_number(s, room, at, tenths / 10);
		text_append(s, room, at, ".", 1);
		text_append_number(s, room, at, tenths % 10);
	}
	text_append_str(s, room, at, unit[u]);
}

#endif
