/* How alike the forward pass that a configuration predicts is to the one that was seen: the sizes
 * of its blocks, and how often each was made. It tells what the peak does not depend on. */
#include "infer/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "match/match.h"
#include "systems/memtrace.h"

#define COUNTED_STEP 1 /* the first has what later ones do not */

struct profile {
	struct size_count *sizes;
	size_t count, room;
	uint64_t all;
};

static void read_event(struct profile *p, const char *line, bytes least)
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
	census_count(&p->sizes, &p->count, &p->room, size);
	p->all++;
}

/* The share of blocks that have their like on the other side. */
static double overlap(const struct profile *p, const struct census *c)
{
	uint64_t all = 0;
	double sum = 0;
	size_t i = 0, k = 0;

	for (size_t n = 0; n < c->forward_count; n++)
		all += c->forward[n].count;
	while (all && i < p->count && k < c->forward_count) {
		const struct size_count *a = &p->sizes[i], *b = &c->forward[k];
		double left = (double)a->count / (double)p->all,
		       right = (double)b->count / (double)all;

		if (a->size == b->size)
			sum += left < right ? left : right;
		i += a->size <= b->size;
		k += b->size <= a->size;
	}
	return sum;
}

double infer_likeness(const struct config *c, const struct witness *w)
{
	struct profile p = { .all = 0 };
	struct err e = { 0 };
	char *text = NULL;
	size_t length;
	FILE *f = open_memstream(&text, &length);
	int status = -1;
	double like;

	if (f)
		status = memtrace_run(c, match_place(c, w->rank), f, NULL, NULL, &e);
	if (f)
		fclose(f);
	for (char *rest = status ? NULL : text, *line; (line = strsep(&rest, "\n")) && *line;)
		read_event(&p, line, w->census->forward_count ? w->census->forward[0].size : 0);
	like = overlap(&p, w->census);
	free(text);
	free(p.sizes);
	return like;
}
