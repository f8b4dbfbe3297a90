#define _GNU_SOURCE
#include "record/clock.h"

#include <string.h>

#include "record/file.h"
#include "symbols/resolve.h"

int clock_uses_counter;

void clock_find(void)
{
	void *real = resolve_in_libc("clock_gettime");

	if (real)
		*(void **)&real_clock = real;
}

void clock_begin(void)
{
	char source[32] = "";

	clock_uses_counter =
		file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource",
			  source, sizeof(source) - 1) > 0 &&
		strcmp(source, CLOCK_SOURCE) == 0;
}

/* Reads the clocks a few times and returns the fastest try: an interrupted try takes longer. */
struct clock_reading clock_read(int uses_counter)
{
	struct clock_reading best = { 0 };
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < 4; i++) {
		uint64_t before = uses_counter ? CLOCK_COUNTER() : 0, ns = now_ns(),
			 after = uses_counter ? CLOCK_COUNTER() : 0;

		if (!uses_counter)
			return (struct clock_reading){ ns, ns };
		if (after - before < shortest) {
			shortest = after - before;
			best = (struct clock_reading){ before + shortest / 2, ns };
		}
	}
	return best;
}

uint64_t clock_between(struct clock_reading a, struct clock_reading b, uint64_t counter)
{
	__int128 since = (__int128)counter - a.counter, width = (__int128)b.counter - a.counter;

	return width > 0 ? (uint64_t)(a.ns + since * ((__int128)b.ns - a.ns) / width) : a.ns;
}

struct clock_line clock_line_of(struct clock_reading a, struct clock_reading b)
{
	struct clock_line l = { .from = a, .length = b.counter - a.counter };

	if (l.length && l.length < UINT32_MAX && b.ns - a.ns < UINT32_MAX)
		l.rate = ((b.ns - a.ns) << 32) / l.length;
	if (l.rate >= 1ull << 32) /* a counter below 1 GHz: the product must fit, too */
		l.length = l.length < UINT64_MAX / l.rate ? l.length : 0;
	return l;
}

struct clock_line clock_latest_line(const struct clock_history *h)
{
	if (h->recent_count < 2)
		return (struct clock_line){ 0 };
	return clock_line_of(h->recent[h->recent_count - 2], h->recent[h->recent_count - 1]);
}

struct clock_reading clock_latest(const struct clock_history *h)
{
	return h->recent[h->recent_count - 1];
}

static void remember_old(struct clock_history *h, struct clock_reading r)
{
	unsigned kept = 0;

	if (h->old_count && r.ns - h->old[h->old_count - 1].ns < h->distance_ns)
		return;
	if (h->old_count == CLOCK_OLD) {
		for (unsigned i = 0; i < CLOCK_OLD; i += 2)
			h->old[kept++] = h->old[i];
		h->old_count = kept;
		h->distance_ns = h->distance_ns ? 2 * h->distance_ns : 1000000000;
	}
	h->old[h->old_count++] = r;
}

void clock_remember(struct clock_history *h, struct clock_reading r)
{
	if (h->recent_count && (r.counter <= clock_latest(h).counter || r.ns < clock_latest(h).ns))
		return;
	if (h->recent_count == CLOCK_RECENT) {
		for (unsigned i = 0; i < CLOCK_RECENT / 2; i++)
			remember_old(h, h->recent[i]);
		h->recent_count = CLOCK_RECENT / 2;
		memmove(h->recent, h->recent + CLOCK_RECENT / 2,
			sizeof(h->recent[0]) * h->recent_count);
	}
	h->recent[h->recent_count++] = r;
}

/* ns at COUNTER, on the line through the two neighbours among COUNT readings (at least 2). */
static uint64_t on_line(const struct clock_reading *reading, unsigned count, uint64_t counter)
{
	unsigned low = 0, high = count - 1;

	if (counter >= reading[high - 1].counter)
		low = high - 1;
	while (high - low > 1) {
		unsigned middle = low + (high - low) / 2;

		if (reading[middle].counter <= counter)
			low = middle;
		else
			high = middle;
	}
	return clock_between(reading[low], reading[high], counter);
}

uint64_t clock_ns(const struct clock_history *h, uint64_t counter)
{
	const struct clock_reading *last;

	if (h->recent_count < 2)
		return h->recent_count ? h->recent[0].ns : 0;
	if (!h->old_count || counter >= h->recent[0].counter)
		return on_line(h->recent, h->recent_count, counter);
	last = &h->old[h->old_count - 1];
	if (counter >= last->counter)
		return clock_between(*last, h->recent[0], counter);
	return h->old_count < 2 ? last->ns : on_line(h->old, h->old_count, counter);
}
