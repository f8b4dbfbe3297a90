#include "report.h"

#include <stdlib.h>

const char *end_name(enum end e)
{
	static const char *const names[] = { "unknown", "exit", "oom", "killed", "running" };

	return names[e];
}

static int by_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->start_realtime_ns != y->start_realtime_ns)
		return x->start_realtime_ns < y->start_realtime_ns ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->device > y->device) - (x->device < y->device);
}

void report_sort(struct report *r)
{
	if (r->count)
		qsort(r->ranks, r->count, sizeof(*r->ranks), by_rank);
}

static void stacks_release(struct stacks *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->rows[i].stack);
		free(s->rows[i].label);
		free(s->rows[i].inner);
		free(s->rows[i].module);
	}
	free(s->rows);
}

static void rank_release(struct rank *r)
{
	for (size_t i = 0; i < r->oom_count; i++)
		stacks_release(&r->ooms[i].stacks);
	for (size_t i = 0; i < r->warning_count; i++)
		free(r->warnings[i]);
	for (size_t i = 0; i < r->pool_count; i++)
		free(r->pool[i]);
	for (size_t i = 0; i < r->owner_count; i++)
		free(r->owners[i].curve);
	stacks_release(&r->stacks);
	free(r->steps);
	free(r->phases);
	free(r->spans);
	free(r->owners);
	free(r->comms);
	free(r->ooms);
	free(r->live);
	free(r->held);
	free(r->timeline);
	free(r->versions);
	free(r->warnings);
	free(r->pool);
}

void report_release(struct report *r)
{
	for (size_t i = 0; i < r->count; i++)
		rank_release(&r->ranks[i]);
	free(r->ranks);
	*r = (struct report){ 0 };
}

const struct oom *rank_oom(const struct rank *r)
{
	return r->oom_count ? &r->ooms[r->oom_count - 1] : NULL;
}

static double share(const struct rank *r)
{
	return r->total > 0 ? (double)r->peak_device / (double)r->total : 0;
}

const struct rank *report_worst(const struct report *r)
{
	const struct rank *worst = NULL;

	for (size_t i = 0; i < r->count; i++) {
		const struct rank *x = &r->ranks[i];
		int died = x->end == END_OOM && x->oom_count,
		    worst_died = worst && worst->end == END_OOM && worst->oom_count;

		if (!worst || died > worst_died ||
		    (died == worst_died &&
		     (died ? rank_oom(x)->when.time_s < rank_oom(worst)->when.time_s
			   : share(x) > share(worst))))
			worst = x;
	}
	return worst;
}
