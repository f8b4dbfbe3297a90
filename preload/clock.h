/*
 * CLOCK_MONOTONIC, cheaper: where the kernel itself trusts the processor's counter (clocksource
 * tsc), events read that counter, and the helper thread keeps its rate and offset true. Elsewhere,
 * and until the rate is known, clock_gettime().
 */
#ifndef PRELOAD_CLOCK_H
#define PRELOAD_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "lock.h"

/* ns = ns + (counter - tsc) * rate / 2^32 */
struct clock_line {
	uint64_t tsc, ns, rate;
};

extern _Atomic(const struct clock_line *) clock_line; /* NULL: clock_gettime() */

/* Takes the first of the two readings that give the rate. */
void clock_begin(void);

/* Corrects the line; the helper thread, now and then. */
void clock_correct(void);

#if defined(__x86_64__)
#include <x86intrin.h>
#define CLOCK_COUNTER() __rdtsc()
#else
#define CLOCK_COUNTER() 0
#endif

static inline uint64_t clock_ns(void)
{
	const struct clock_line *l = atomic_load_explicit(&clock_line, memory_order_acquire);

	if (__builtin_expect(l != NULL, 1))
		return l->ns +
		       (uint64_t)((unsigned __int128)(CLOCK_COUNTER() - l->tsc) * l->rate >> 32);
	return now_ns();
}

#endif
