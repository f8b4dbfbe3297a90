#include "replay/peaks.h"

#include "replay/accounting.h"

struct moment peaks_moment(const struct device *d, struct position at, const struct mt_record *r)
{
	struct moment m = d->now;

	m.at = at;
	m.time_ns = r->time_ns;
	m.thread = r->thread;
	m.stack = r->stack;
	return m;
}

void peaks_check_device(struct device *d, struct position at, const struct mt_record *r)
{
	if (d->is_outside)
		return;
	if (d->now.reserved > d->reserved_peak)
		d->reserved_peak = d->now.reserved;
	if (moment_device(&d->now) > moment_device(&d->device_peak)) {
		d->device_peak = peaks_moment(d, at, r);
		account_owners(d, d->owners_at_device_peak);
	}
}
