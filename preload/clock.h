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

/* Where LINE stands at COUNTER. A counter read before the line was drawn counts as its start. */
static inline uint64_t clock_at(const struct clock_line *line, uint64_t counter)
{
	int64_t since = (int64_t)(counter - line->tsc);

	return line->ns +
	       (since > 0 ? (uint64_t)((unsigned __int128)(uint64_t)since * line->rate >> 32) : 0);
}

static inline uint64_t clock_ns(void)
{
	const struct clock_line *l = atomic_load_explicit(&clock_line, memory_order_acquire);

	return __builtin_expect(l != NULL, 1) ? clock_at(l, CLOCK_COUNTER()) : now_ns();
}

#endif
