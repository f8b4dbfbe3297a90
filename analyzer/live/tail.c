#include "live/tail.h"

#include <stdlib.h>
#include <string.h>

#include "replay/accounting.h"
#include "replay/replay.h"
#include "report/report_build.h"
#include "trace/trace.h"

#define WARM_UP 3 /* growth in the first steps of a job is no trend */

/* Leaves out the segments before the tail. Returns whether there were some. */
static int keep_tail(struct trace *t)
{
	uint64_t records = 0;
	size_t first = t->segment_count;

	while (first && records < TAIL_RECORDS)
		records += t->segments[--first].events.records;
	while (first && !t->segments[first].has_keyframe)
		first--;
	if (!first)
		return t->segment_count && t->segments[0].first_sequence != 0;
	t->segment_count -= first;
	memmove(t->segments, t->segments + first, t->segment_count * sizeof(*t->segments));
	/* The keyframe stands for everything before it. */
	t->segments[0].gap = t->segments[0].first_sequence;
	return 1;
}

/* The complete steps of a device, the latest last; the caller frees them. */
static struct trend_step *steps_of(const struct device *d, int is_cut, size_t *count)
{
	const struct spans *s = &d->spans;
	struct trend_step *list = NULL;
	size_t n = 0, room = 0, skipped = is_cut ? 1 : WARM_UP;
	uint32_t step = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct span *x = &s->list[i];

		if (!span_step(x))
			continue;
		if (x->step != step) {
			step = x->step;
			list = grow(list, n, &room, sizeof(*list));
			list[n++] = (struct trend_step){ x->start_ns, x->floor, x->peak };
		}
		list[n - 1].floor = smaller_of(list[n - 1].floor, x->floor);
		list[n - 1].peak = larger_of(list[n - 1].peak, x->peak);
	}
	n -= n != 0; /* the last one is not complete */
	skipped = skipped < n ? skipped : n;
	*count = n - skipped;
	if (list)
		memmove(list, list + skipped, *count * sizeof(*list));
	return list;
}

/* `knows_step`: the number of a step counts from the first. */
static void fill(struct live_tail *to, const struct device *d, int is_cut, int knows_step)
{
	size_t count;
	struct trend_step *steps = steps_of(d, is_cut, &count);

	*to = (struct live_tail){ .is_known = 1, .peak = d->peak.allocated };
	if (count)
		to->trend = trend_of(steps, count);
	if (knows_step && d->spans.count && d->spans.list[d->spans.count - 1].phase != PHASE_SETUP)
		to->step = d->spans.list[d->spans.count - 1].step;
	memcpy(to->by_category, d->at_peak.by_category, sizeof(to->by_category));
	account_owners(d, to->by_owner);
	free(steps);
}

static int open_tail(struct trace *t, const char *path, int *is_cut, struct err *e)
{
	if (trace_open_header(t, path, e) < 0 || trace_load(t, e) < 0)
		return -1;
	*is_cut = keep_tail(t);
	return 0;
}

void live_tail_read(struct live_process *p)
{
	struct replay_options none = { 0 };
	struct replay *r = xcalloc(1, sizeof(*r));
	struct err ignored = { 0 };
	struct trace t;
	int is_cut;

	p->tail_records = p->records;
	if (!open_tail(&t, p->path, &is_cut, &ignored)) {
		replay_trace(r, &t, &none);
		/* Behind records that are lost without a keyframe, no level is known. */
		for (size_t i = 0; i < p->device_count && !r->open_gaps && !trace_changed(&t); i++)
			if (r->device[p->devices[i].ordinal].seen)
				fill(&p->devices[i].tail, &r->device[p->devices[i].ordinal], is_cut,
				     !is_cut || r->marks.steps_seen);
		replay_release(r);
	}
	trace_release(&t);
	free(r);
}

int live_tail_report(const struct live_process *p, struct report *r, struct err *e)
{
	struct replay_options none = { 0 };
	struct trace t;
	int is_cut, status = open_tail(&t, p->path, &is_cut, e);

	*r = (struct report){ 0 };
	if (!status)
		report_add(r, &t, NULL, &none);
	trace_release(&t);
	return status;
}
