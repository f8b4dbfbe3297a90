#include "live/live_metrics.h"

#include "export/exposition.h"
#include "live/rows.h"

static void add_tail(struct exposition *x, const struct live_device *d)
{
	int64_t left = live_steps_until_full(d);

	if (!d->tail.is_known)
		return;
	exposition_categories(x, METRIC_RECENT_CATEGORY, d->tail.by_category);
	exposition_owners(x, METRIC_RECENT_OWNER, d->tail.by_owner);
	if (d->tail.trend.steps >= TREND_LEAST)
		exposition_sample(x, METRIC_GROWTH, NULL, NULL, (double)d->tail.trend.growth);
	if (left >= 0)
		exposition_sample(x, METRIC_STEPS_UNTIL_FULL, NULL, NULL, (double)left);
}

static void add_device(struct exposition *x, const struct live_device *d)
{
	const struct device_levels levels = { .allocated = d->allocated,
					      .allocated_peak = d->allocated_peak,
					      .reserved = d->reserved,
					      .reserved_peak = d->reserved_peak,
					      .total = d->total,
					      .ooms = d->ooms + d->refused };

	exposition_levels(x, &levels);
	exposition_use(x, live_device_bytes(d), d->device_peak);
	add_tail(x, d);
}

static void add_process(struct exposition *x, const struct live_process *p)
{
	exposition_process(x, p->run, p->rank, p->start_ns);
	exposition_sample(x, METRIC_STATE, "state", live_state_key(p->state), 1);
	exposition_sample(x, METRIC_LOST, NULL, NULL, (double)p->lost_events);
	if (p->last_s >= 0)
		exposition_sample(x, METRIC_LAST_EVENT, NULL, NULL,
				  (double)p->start_ns / 1e9 + p->last_s);
	for (size_t i = 0; i < p->device_count; i++) {
		exposition_device(x, p->devices[i].ordinal);
		add_device(x, &p->devices[i]);
	}
}

int live_metrics_write(const struct folder *f, const char *path, struct err *e)
{
	struct exposition x = { 0 };
	struct output o;
	int status;

	if (output_begin(&o, path, NULL, 0, e) < 0)
		return -1;
	for (size_t i = 0; i < f->count; i++)
		if (f->list[i].state != LIVE_DAMAGED && folder_is_current(f, &f->list[i]))
			add_process(&x, &f->list[i]);
	exposition_write(&x, &o);
	status = output_end(&o, 0, e);
	exposition_release(&x);
	return status;
}
