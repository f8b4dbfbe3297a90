/* The moments of a device's peaks, found while its levels are followed. */
#ifndef MEMTRACE_PEAKS_H
#define MEMTRACE_PEAKS_H

#include "replay/device.h"

/* The present moment, of event `r`. */
struct moment peaks_moment(const struct device *d, struct position at, const struct mt_record *r);

/* To be called after `reserved`, `other` or `untracked` changed. */
void peaks_check_device(struct device *d, struct position at, const struct mt_record *r);

/* To be called after `allocated` grew. */
static inline void peaks_check_allocated(struct device *d, struct position at,
					 const struct mt_record *r)
{
	if (d->now.allocated > d->since_mark)
		d->since_mark = d->now.allocated;
	if (d->now.allocated > d->peak.allocated && !d->is_outside)
		d->peak = peaks_moment(d, at, r);
}

#endif
