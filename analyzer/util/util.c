#define _GNU_SOURCE /* vasprintf */
#include "util/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Noreturn void no_memory(void)
{
	fputs("memtrace: out of memory\n", stderr);
	_Exit(3);
}

void *xcalloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size ? size : 1);

	if (!p)
		no_memory();
	return p;
}

void *xaligned(size_t alignment, size_t count, size_t size)
{
	size_t total;
	void *p;

	if (__builtin_mul_overflow(count, size, &total) || !(p = aligned_alloc(alignment, total)))
		no_memory();
	return memset(p, 0, total);
}

void *xrealloc(void *old, size_t count, size_t size)
{
	size_t total;
	void *p;

	if (__builtin_mul_overflow(count, size, &total))
		no_memory();
	p = realloc(old, total ? total : 1);
	if (!p)
		no_memory();
	return p;
}

char *xstrdup(const char *text)
{
	char *p = strdup(text);

	if (!p)
		no_memory();
	return p;
}

char *xvasprintf(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		no_memory();
	return text;
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = xvasprintf(format, args);
	va_end(args);
	return text;
}

void *grow(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 16;
	return xrealloc(array, *room, size);
}

#define OBJECTS 32 /* of a slab */

void *slabs_get(struct slabs *s, size_t size)
{
	char *object;

	if (!s->left) {
		s->at = grow(s->at, s->count, &s->room, sizeof(*s->at));
		s->next = s->at[s->count++] = xcalloc(OBJECTS, size);
		s->left = OBJECTS;
	}
	object = s->next;
	s->next += size;
	s->left--;
	return object;
}

void slabs_release(struct slabs *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->at[i]);
	free(s->at);
	*s = (struct slabs){ .at = NULL };
}

int ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/* Levenshtein's distance; words longer than the row are far from everything. */
static size_t distance(const char *a, const char *b)
{
	size_t row[40], na = strlen(a), nb = strlen(b);

	if (nb + 1 > ARRAY_SIZE(row))
		return SIZE_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t replace = diagonal + (a[i - 1] != b[j - 1]);
			size_t insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = replace < insert ? replace : insert;
		}
	}
	return row[nb];
}

const char *nearest(const char *word, const char *const *names)
{
	const char *best = NULL;
	size_t least = strlen(word) / 2 + 1;

	for (; *names; names++) {
		size_t d = distance(word, *names);
		int begins = strlen(word) > 1 && !strncmp(word, *names, strlen(word));

		/* what the word begins counts as near; of several such the shortest is nearest */
		if (d < least || (begins && (!best || strlen(*names) < strlen(best)))) {
			least = d < least ? d : least;
			best = *names;
		}
	}
	return best;
}

double monotonic_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void bug(const char *file, int line, const char *what)
{
	fprintf(stderr, "memtrace: bug at %s:%d: %s\n", file, line, what);
	_Exit(3);
}
