/* Compares the forward pass that a configuration predicts with the observed one: the sizes of its
 * blocks, and how often each occurs. This shows values that the peak does not depend on. */
#include "infer/infer_likeness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "match/match.h"
#include "systems/memtrace.h"

#define COUNTED_STEP 1 /* step 0 also allocates what later steps reuse */

/* The blocks that the estimate's forward pass allocates. */
struct predicted_sizes {
	struct size_counts sizes;
	uint64_t all;
};

static void read_event(struct predicted_sizes *p, const char *line, bytes least)
{
	long long size, stream, step;
	char sign, phase[32];

	if (*line != '+')
		return;
	if (sscanf(line, "%c %lld %lld %lld %31s", &sign, &size, &stream, &step, phase) != 5)
		BUG("an event has five words and a term");
	size = round_up(size, SMALLEST_BLOCK);
	if (step != COUNTED_STEP || size < least ||
	    (strcmp(phase, "forward") && strcmp(phase, "loss")))
		return;
	size_counts_add(&p->sizes, size);
	p->all++;
}

/* The share of blocks that have a block of the same size on the other side. */
static double overlap(const struct predicted_sizes *p, const struct alloc_profile *c)
{
	uint64_t all = 0;
	double sum = 0;
	size_t i = 0, k = 0;

	for (size_t n = 0; n < c->forward.count; n++)
		all += c->forward.list[n].count;
	while (all && i < p->sizes.count && k < c->forward.count) {
		const struct size_count *a = &p->sizes.list[i], *b = &c->forward.list[k];
		double left = (double)a->count / (double)p->all,
		       right = (double)b->count / (double)all;

		if (a->size == b->size)
			sum += left < right ? left : right;
		i += a->size <= b->size;
		k += b->size <= a->size;
	}
	return sum;
}

double infer_likeness(const struct config *c, const struct observed_rank *w)
{
	struct predicted_sizes p = { .all = 0 };
	struct err e = { 0 };
	char *text = NULL;
	size_t length;
	FILE *f = open_memstream(&text, &length);
	int status = -1;
	double like;

	if (f)
		status = memtrace_run(c, match_coordinates(c, w->rank), f, NULL, NULL, &e);
	if (f)
		fclose(f);
	for (char *rest = status ? NULL : text, *line; (line = strsep(&rest, "\n")) && *line;)
		read_event(&p, line,
			   w->profile->forward.count ? w->profile->forward.list[0].size : 0);
	size_counts_sort(&p.sizes);
	like = overlap(&p, w->profile);
	free(text);
	size_counts_release(&p.sizes);
	return like;
}
