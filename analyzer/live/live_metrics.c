#include "live/live_metrics.h"

#include "export/exposition.h"
#include "live/rows.h"

static void add_tail(struct exposition *x, const struct live_device *d)
{
	int64_t left = live_steps_until_full(d);

	if (!d->tail.is_known)
		return;
	for (enum category c = 0; c < CATEGORIES; c++)
		if (d->tail.by_category[c])
			exposition_sample(x, METRIC_RECENT_CATEGORY, "category", category_key(c),
					  (double)d->tail.by_category[c]);
	for (enum owner o = 0; o < OWNERS; o++)
		if (d->tail.by_owner[o])
			exposition_sample(x, METRIC_RECENT_OWNER, "owner", owner_key(o),
					  (double)d->tail.by_owner[o]);
	if (d->tail.trend.steps >= TREND_LEAST)
		exposition_sample(x, METRIC_GROWTH, NULL, NULL, (double)d->tail.trend.growth);
	if (left >= 0)
		exposition_sample(x, METRIC_STEPS_UNTIL_FULL, NULL, NULL, (double)left);
}

static void add_device(struct exposition *x, const struct live_device *d)
{
	const struct {
		enum metric_id id;
		bytes value;
	} values[] = {
		{ METRIC_ALLOCATED, d->allocated },
		{ METRIC_ALLOCATED_PEAK, d->allocated_peak },
		{ METRIC_RESERVED, d->reserved },
		{ METRIC_RESERVED_PEAK, d->reserved_peak },
		{ METRIC_DEVICE, live_device_bytes(d) },
		{ METRIC_DEVICE_PEAK, d->device_peak },
	};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		exposition_sample(x, values[i].id, NULL, NULL, (double)values[i].value);
	if (d->total)
		exposition_sample(x, METRIC_TOTAL, NULL, NULL, (double)d->total);
	exposition_sample(x, METRIC_OOMS, NULL, NULL, (double)(d->ooms + d->refused));
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
