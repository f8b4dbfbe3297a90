#include "replay/device.h"

#include <stdlib.h>

#define SURVIVED_ALLOCS 1000

int failure_survived(const struct failure *f)
{
	return f->trained || (f->later_bytes >= f->requested && f->later_allocs > SURVIVED_ALLOCS);
}

void device_release(struct device *d)
{
	for (size_t k = 0; k < d->failure_count; k++)
		free(d->failures[k].live.groups);
	free(d->failures);
	spans_release(&d->spans);
	backward_release(&d->backward);
	free(d->timeline);
	free(d->owner_timeline);
	free(d->comms.list);
	free(d->at_peak.groups);
	lifetimes_release(&d->peak_blocks);
	free(d->live);
	*d = (struct device){ 0 };
}
