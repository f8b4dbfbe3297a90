#include "timeline.h"

#define FIRST_SHIFT 16 /* 65 us */

static void merge_pairs(struct timeline *t)
{
	for (size_t i = 0; i < t->used; i += 2) {
		struct bin *to = &t->bins[i / 2];
		const struct bin *a = &t->bins[i], *b = &t->bins[i + 1 < t->used ? i + 1 : i];

		for (int c = 0; c < CURVES; c++) {
			bytes least = a->least[c] < b->least[c] ? a->least[c] : b->least[c];
			bytes most = a->most[c] > b->most[c] ? a->most[c] : b->most[c];

			to->last[c] = b->last[c];
			to->least[c] = least;
			to->most[c] = most;
		}
	}
	t->used = (t->used + 1) / 2;
	t->shift++;
}

void timeline_advance(struct timeline *t, uint64_t time, const bytes levels[CURVES])
{
	if (!t->shift)
		t->shift = FIRST_SHIFT;
	while (time >> t->shift >= TIMELINE_BINS)
		merge_pairs(t);
	while (!t->used || t->used <= time >> t->shift) {
		struct bin *b = &t->bins[t->used++];

		for (int c = 0; c < CURVES; c++)
			b->least[c] = b->most[c] = b->last[c] = levels[c];
	}
}
