/* The metrics of a node: levels and peaks of each rank. */
#include "export/export.h"
#include "export/exposition.h"
#include "report/report_owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_device(struct exposition *x, const struct device *d, int knows_use)
{
	const struct device_levels levels = { .allocated = d->now.allocated,
					      .allocated_peak = d->peak.allocated,
					      .reserved = d->now.reserved,
					      .reserved_peak = d->reserved_peak,
					      .total = d->total,
					      .ooms = d->failures_seen };

	exposition_levels(x, &levels);
	exposition_categories(x, METRIC_CATEGORY, d->at_peak.by_category);
	if (!knows_use)
		return;
	exposition_use(x, moment_device(&d->now), moment_device(&d->device_peak));
	exposition_owners(x, METRIC_OWNER, d->owners_at_device_peak);
}

static int begin(struct export *x, struct err *e)
{
	(void)e;
	x->state = xcalloc(1, sizeof(struct exposition));
	return 0;
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	const struct mt_header *h = &in->trace.header;
	struct exposition *p = x->state;
	bytes pinned = report_pinned_peak(&in->replay.host, trace_is_imported(&in->trace));

	(void)e;
	exposition_process(p, h->run_id, h->rank, h->start_realtime_ns);
	for (unsigned i = 0; i < MT_MAX_DEVICES; i++) {
		if (!in->replay.device[i].seen)
			continue;
		exposition_device(p, i);
		add_device(p, &in->replay.device[i], !trace_is_imported(&in->trace));
	}
	exposition_device(p, MT_NO_DEVICE);
	if (pinned != UNKNOWN_BYTES)
		exposition_sample(p, METRIC_PINNED_PEAK, NULL, NULL, (double)pinned);
	exposition_sample(p, METRIC_LOST, NULL, NULL, (double)h->lost_events);
	exposition_sample(p, METRIC_LAST_EVENT, NULL, NULL,
			  (double)input_real_ns(in, in->replay.last_time_ns) / 1e9);
	return 0;
}

static int end(struct export *x, int failed, struct err *e)
{
	struct exposition *p = x->state;

	(void)e;
	if (!p)
		return 0;
	if (!failed && p->left_out)
		buf_addf(x->notes,
			 "memtrace: left out: %zu process%s, as one of the same run and rank began "
			 "later\n",
			 p->left_out, p->left_out > 1 ? "es" : "");
	if (!failed)
		exposition_write(p, &x->out);
	exposition_release(p);
	free(p);
	return 0;
}

const struct export_writer export_prometheus = { .begin = begin, .add = add, .end = end };
