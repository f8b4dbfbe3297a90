#include "replay/timeline.h"

#define FIRST_SHIFT 16 /* 65 us */

struct timeline *timeline_new(unsigned curves)
{
	struct timeline *t =
		xcalloc(1, sizeof(*t) + TIMELINE_BINS * (size_t)curves * sizeof(struct bin));

	t->curves = curves;
	t->shift = FIRST_SHIFT;
	return t;
}

static void merge_pairs(struct timeline *t)
{
	for (size_t i = 0; i < t->used; i += 2) {
		struct bin *to = &t->bins[i / 2 * t->curves];
		const struct bin *a = &t->bins[i * t->curves],
				 *b = i + 1 < t->used ? a + t->curves : a;

		for (unsigned c = 0; c < t->curves; c++)
			to[c] = (struct bin){
				.floor = a[c].floor < b[c].floor ? a[c].floor : b[c].floor,
				.peak = a[c].peak > b[c].peak ? a[c].peak : b[c].peak,
				.last = b[c].last,
			};
	}
	t->used = (t->used + 1) / 2;
	t->shift++;
}

void timeline_advance(struct timeline *t, uint64_t time, const bytes *levels)
{
	while (time >> t->shift >= TIMELINE_BINS)
		merge_pairs(t);
	while (t->used <= time >> t->shift) {
		struct bin *b = &t->bins[t->used++ * t->curves];

		for (unsigned c = 0; c < t->curves; c++)
			b[c] = (struct bin){ levels[c], levels[c], levels[c] };
	}
	t->now = &t->bins[(t->used - 1) * t->curves];
	t->end_ns = (uint64_t)t->used << t->shift;
}
