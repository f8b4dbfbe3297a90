/*
 * The time of events, read at the lowest cost: the processor's counter if the kernel's clock uses
 * that counter, else CLOCK_MONOTONIC in ns. The writer converts a counter to ns between two
 * readings of both clocks: times are those of CLOCK_MONOTONIC, even if it is slewed, and never go
 * back.
 */
#ifndef PRELOAD_CLOCK_H
#define PRELOAD_CLOCK_H

#include <stdint.h>

#include "base/lock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define CLOCK_COUNTER() __rdtsc()
#define CLOCK_SOURCE "tsc\n"
#elif defined(__aarch64__)
static inline uint64_t clock_virtual_counter(void)
{
	uint64_t counter;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
	return counter;
}
#define CLOCK_COUNTER() clock_virtual_counter()
#define CLOCK_SOURCE "arch_sys_counter\n"
#else
#define CLOCK_COUNTER() 0
#define CLOCK_SOURCE "none"
#endif

extern int clock_uses_counter;

/* Finds the C library's clock, which real_clock() then is. */
void clock_find(void);

/* Decides whether the counter is used. */
void clock_begin(void);

static inline uint64_t clock_now(void)
{
	return __builtin_expect(clock_uses_counter, 1) ? CLOCK_COUNTER() : now_ns();
}

/* Both clocks at one moment. */
struct clock_reading {
	uint64_t counter, ns;
};

struct clock_reading clock_read(int uses_counter);

/* ns at COUNTER, on the line through A and B (A before B). */
uint64_t clock_between(struct clock_reading a, struct clock_reading b, uint64_t counter);

/* The same line, prepared for many counters from A to B: ns = from.ns + (counter - from.counter) *
 * rate / 2^32. Rate 0: the line is too long for this formula. */
struct clock_line {
	struct clock_reading from;
	uint64_t length, rate;
};

struct clock_line clock_line_of(struct clock_reading a, struct clock_reading b);

static inline int clock_is_on_line(const struct clock_line *l, uint64_t counter)
{
	return l->rate && counter - l->from.counter <= l->length;
}

static inline uint64_t clock_at(const struct clock_line *l, uint64_t counter)
{
	return l->from.ns + ((counter - l->from.counter) * l->rate >> 32);
}

#define CLOCK_RECENT 256
#define CLOCK_OLD 4096

/* Readings in order of time: all recent ones, and older ones at even distances. The distance
 * doubles when the array is full. */
struct clock_history {
	unsigned recent_count, old_count;
	uint64_t distance_ns;
	struct clock_reading recent[CLOCK_RECENT], old[CLOCK_OLD];
};

/* The latest reading; the history must not be empty. */
struct clock_reading clock_latest(const struct clock_history *h);

void clock_remember(struct clock_history *h, struct clock_reading r);

/* The line between the latest two readings. */
struct clock_line clock_latest_line(const struct clock_history *h);

/* ns at COUNTER. A counter outside the history is on the line of the first or last two readings.
 * The result is exact between the latest readings. */
uint64_t clock_ns(const struct clock_history *h, uint64_t counter);

#endif
