#include "top/follow_text.h"

#include "top/frame_words.h"
#include "util/size.h"

static void add_trend(struct buf *b, const struct live_device *d)
{
	int64_t left = live_steps_until_full(d);

	if (left < 0)
		return;
	buf_puts(b, ", grows by ");
	size_add(b, d->tail.trend.growth, 0);
	buf_addf(b, " a step: full in %lld steps at most", (long long)left);
}

static void add_device(struct buf *b, const struct live_process *p, const struct live_device *d)
{
	if (p->device_count > 1)
		buf_addf(b, "gpu %u  ", d->ordinal);
	if (d->tail.step)
		buf_addf(b, "step %u  ", d->tail.step);
	buf_puts(b, "allocated ");
	size_add(b, d->allocated, 0);
	buf_puts(b, ", reserved ");
	size_add(b, d->reserved, 0);
	buf_puts(b, ", device ");
	size_add(b, live_device_bytes(d), 0);
	if (d->total) {
		buf_puts(b, " of ");
		size_add(b, d->total, 0);
	}
	buf_puts(b, ", peak ");
	size_add(b, d->device_peak, 0);
	if (d->ooms + d->refused)
		buf_addf(b, ", %llu failed allocations", (unsigned long long)d->ooms + d->refused);
	add_trend(b, d);
}

void follow_text(struct buf *b, const struct live_process *p, const char *clock)
{
	for (size_t i = 0; i < p->device_count; i++) {
		buf_addf(b, "%s  ", clock);
		add_device(b, p, &p->devices[i]);
		if (p->state == LIVE_SILENT || p->state == LIVE_UNKNOWN) {
			buf_puts(b, ", no event for ");
			frame_time(b, p->age_s);
		}
		buf_puts(b, "\n");
	}
}

void follow_given_up(struct buf *b, const struct live_process *p, size_t others)
{
	frame_name(b, p);
	buf_addf(b, " on %s", p->host);
	if (others)
		buf_addf(b, " and %zu other%s", others, others > 1 ? "s" : "");
	buf_puts(b, " had no event for more than ");
	frame_time(b, LIVE_PATIENCE_S);
	buf_puts(b, "; whether it runs cannot be seen from this host, and it is not waited for");
}
