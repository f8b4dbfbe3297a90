#include "replay/device.h"

#include <stdlib.h>

#define SURVIVED_ALLOCS 1000

int failure_survived(const struct failure *f)
{
	return f->trained || (f->later_bytes >= f->requested && f->later_allocs > SURVIVED_ALLOCS);
}

uint64_t device_end_of_job(const struct device *d, uint64_t end_ns)
{
	return d->ran_out && d->ran_out_ns < end_ns ? d->ran_out_ns : end_ns;
}

void device_release(struct device *d)
{
	for (size_t k = 0; k < d->failure_count; k++)
		snapshot_release(&d->failures[k].live);
	free(d->failures);
	spans_release(&d->spans);
	backward_release(&d->backward);
	free(d->timeline);
	free(d->owner_timeline);
	free(d->comms.list);
	snapshot_release(&d->at_peak);
	lifetimes_release(&d->peak_blocks);
	free(d->live);
	*d = (struct device){ 0 };
}
