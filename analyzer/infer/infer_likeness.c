/* Compares the forward pass that a configuration predicts with the observed one: the sizes of its
 * blocks, and how often each occurs. This shows values that the peak does not depend on. */
#include "infer/infer_likeness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer_layers.h"
#include "match/match.h"
#include "systems/memtrace.h"

#define COUNTED_STEP 1 /* step 0 also allocates what later steps reuse */

/* Counts a block that the estimate's forward pass allocates. */
static void read_event(struct size_counts *predicted, const char *line, bytes least)
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
	size_counts_add(predicted, size);
}

/* Pairs blocks of the two sides, and returns the share that has a partner. A partner has the same
 * size, or with `tail` an unsplit tail too. What is paired is taken from `left` and `right`, the
 * shares of each size. */
static double pair(const struct size_counts *predicted, double *left,
		   const struct size_counts *observed, double *right, int tail)
{
	double sum = 0;
	size_t i = 0, k = 0;

	while (i < predicted->count && k < observed->count) {
		bytes wanted = predicted->list[i].size, size = observed->list[k].size;

		if (tail ? size_fits(size, wanted) : size == wanted) {
			double both = left[i] < right[k] ? left[i] : right[k];
			int is_left = left[i] <= right[k];

			sum += both;
			left[i] -= both;
			right[k] -= both;
			i += (size_t)is_left;
			k += (size_t)!is_left;
		} else if (size > wanted) {
			i++;
		} else {
			k++;
		}
	}
	return sum;
}

static double *shares_of(const struct size_counts *sizes)
{
	double *shares = xcalloc(sizes->count + 1, sizeof(*shares)), all = 0;

	for (size_t i = 0; i < sizes->count; i++)
		all += (double)sizes->list[i].count;
	for (size_t i = 0; i < sizes->count; i++)
		shares[i] = (double)sizes->list[i].count / all;
	return shares;
}

/* The share of blocks that have a partner on the other side. */
static double overlap(const struct size_counts *predicted, const struct size_counts *observed)
{
	double *left = shares_of(predicted), *right = shares_of(observed);
	double sum = pair(predicted, left, observed, right, 0);

	sum += pair(predicted, left, observed, right, 1);
	free(left);
	free(right);
	return sum;
}

double infer_likeness(const struct config *c, const struct observed_rank *w)
{
	struct size_counts predicted = { 0 };
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
		read_event(&predicted, line,
			   w->profile->forward.count ? w->profile->forward.list[0].size : 0);
	size_counts_sort(&predicted);
	like = overlap(&predicted, &w->profile->forward);
	free(text);
	size_counts_release(&predicted);
	return like;
}
