/* Memory, sums and texts for all of the analyzer. */
#ifndef MEMTRACE_UTIL_H
#define MEMTRACE_UTIL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a macro as a string. */
#define AS_TEXT(value) AS_TEXT_OF(value)
#define AS_TEXT_OF(value) #value
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE 64 /* bytes that the processor loads at once */

typedef int64_t bytes;

/* The limit of sums, so that damaged files cannot make them overflow; a few sums can still be added
 * to each other. */
#define BYTES_LIMIT (INT64_C(1) << 60)

/* a + b for |a| <= BYTES_LIMIT and |b| <= BYTES_LIMIT; a sum beyond the limit leaves `a`. */
static inline bytes bytes_add(bytes a, bytes b)
{
	bytes sum = a + b;

	/* One comparison of unsigned numbers: it runs several times for each event of a trace. */
	return (uint64_t)(sum + BYTES_LIMIT) > 2 * (uint64_t)BYTES_LIMIT ? a : sum;
}

/* The bytes of `count` blocks of one size, BYTES_LIMIT at most; neither is negative. */
static inline bytes bytes_times(bytes size, int64_t count)
{
	bytes all;

	return __builtin_mul_overflow(size, count, &all) || all > BYTES_LIMIT ? BYTES_LIMIT : all;
}

/* Rounded up. */
static inline int64_t divide_up(int64_t n, int64_t by)
{
	return (n + by - 1) / by;
}

static inline int64_t round_up(int64_t n, int64_t to)
{
	return divide_up(n, to) * to;
}

/* Of positive numbers. */
static inline int64_t greatest_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline int64_t smaller_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t larger_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A text in memory of another owner: any bytes, no terminating zero. */
struct str {
	const char *at;
	size_t length;
};

/* Does a text end with the characters of `end`? */
int ends_with(const char *text, const char *end);

/* These end the program if there is no memory. */
__attribute__((returns_nonnull)) void *xcalloc(size_t count, size_t size);
/* Zeroed too; the total is a multiple of `alignment`. */
__attribute__((returns_nonnull)) void *xaligned(size_t alignment, size_t count, size_t size);
__attribute__((returns_nonnull)) void *xrealloc(void *old, size_t count, size_t size);
__attribute__((returns_nonnull)) char *xstrdup(const char *text);
__attribute__((format(printf, 1, 2), returns_nonnull)) char *xasprintf(const char *format, ...);
__attribute__((format(printf, 1, 0))) char *xvasprintf(const char *format, va_list args);

/* Makes room for one more element in an array of `count` elements with room for `*room`; returns
 * the array. */
__attribute__((returns_nonnull)) void *grow(void *array, size_t count, size_t *room, size_t size);

/* Objects of one size that are freed together: many lie in one piece of memory. */
struct slabs {
	char **at, *next;
	size_t count, room;
	size_t left; /* objects of the last slab that are not given yet, from `next` on */
};

/* A new object, all zero. `size` is the same in every call, and a multiple of the alignment. */
__attribute__((returns_nonnull)) void *slabs_get(struct slabs *s, size_t size);
void slabs_release(struct slabs *s);

/* Seconds from an unknown start, for differences. */
double monotonic_seconds(void);

/* The name that is nearest to `word`, or NULL if none is near. names[] ends with NULL. */
const char *nearest(const char *word, const char *const *names);

/* Ends the program at an impossible state and prints its place. */
#define BUG(what) bug(__FILE__, __LINE__, what)
_Noreturn void bug(const char *file, int line, const char *what);

#endif
