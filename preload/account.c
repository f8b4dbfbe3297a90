#define _GNU_SOURCE
#include "account.h"

#include <string.h>

#include "cuda.h"
#include "lock.h"
#include "recorder.h"
#include "recording.h"

#define SAMPLE_EVERY_NS 10000000u

static struct {
	struct lock lock;                /* account_device(): CUDA calls come from any thread */
	uint8_t reports[MT_MAX_DEVICES]; /* PyTorch's allocator reports blocks here */
	uint64_t sampled_ns[MT_MAX_DEVICES];
	uint64_t pool_reserved[MT_MAX_DEVICES];
} a;

void account_forget(void)
{
	memset(&a, 0, sizeof(a));
}

static void device_peak(struct mt_device *d)
{
	uint64_t all = d->reserved + d->other + d->untracked;

	if (all > d->device_peak)
		d->device_peak = all;
}

int account_block(unsigned device, int64_t bytes, uint64_t allocated, uint64_t reserved,
		  uint64_t *allocated_peak)
{
	struct mt_device *d = &recorder_header()->device[device];
	int changed;

	if (__builtin_expect(!a.reports[device], 0)) {
		/* Until now its CUDA calls stood for its blocks: they were its segments. */
		a.reports[device] = 1;
		d->allocated = d->allocated_peak = d->reserved = d->reserved_peak = d->allocs =
			d->frees = 0;
	}
	changed = d->reserved != reserved;
	d->allocated = allocated;
	if (bytes > 0)
		d->allocs++;
	else
		d->frees++;
	if (allocated > d->allocated_peak)
		d->allocated_peak = allocated;
	if (__builtin_expect(changed, 0)) {
		d->reserved = reserved;
		if (reserved > d->reserved_peak)
			d->reserved_peak = reserved;
		device_peak(d);
	}
	*allocated_peak = d->allocated_peak;
	return changed;
}

void account_peak_at(unsigned device, uint64_t sequence)
{
	if (sequence != MT_UNKNOWN)
		recorder_header()->device[device].peak_sequence = sequence;
}

void account_device(unsigned device, int64_t bytes, int64_t held, int by_allocator)
{
	struct mt_device *d;

	if (device >= MT_MAX_DEVICES || !lock_acquire(&a.lock, LOCK_MS(20)))
		return;
	d = &recorder_header()->device[device];
	if (!by_allocator) {
		d->other += (uint64_t)bytes;
		device_peak(d);
	} else if (!a.reports[device]) {
		d->allocated += (uint64_t)bytes;
		d->reserved += (uint64_t)held;
		d->allocs += bytes > 0;
		d->frees += bytes < 0;
		if (d->allocated > d->allocated_peak)
			d->allocated_peak = d->allocated;
		if (d->reserved > d->reserved_peak)
			d->reserved_peak = d->reserved;
		device_peak(d);
	}
	lock_release(&a.lock);
}

void account_pool(unsigned device, uint64_t reserved)
{
	if (device >= MT_MAX_DEVICES || a.pool_reserved[device] == reserved)
		return;
	if (lock_acquire(&a.lock, LOCK_MS(20))) {
		struct mt_device *d = &recorder_header()->device[device];
		d->reserved += reserved - a.pool_reserved[device];
		a.pool_reserved[device] = reserved;
		if (d->reserved > d->reserved_peak)
			d->reserved_peak = d->reserved;
		device_peak(d);
		lock_release(&a.lock);
	}
	recording_event(MT_POOL_RESERVED, device, 0, (int64_t)reserved, MT_NO_PLACE);
}

void account_oom(unsigned device)
{
	recorder_header()->device[device].ooms++;
}

void account_sample(unsigned device)
{
	uint64_t now = now_ns(), free_bytes, total, known;
	struct mt_device *d;

	if (device >= MT_MAX_DEVICES || now - a.sampled_ns[device] < SAMPLE_EVERY_NS ||
	    cuda_current_device() != (int)device || cuda_memory(&free_bytes, &total) != 0)
		return;
	a.sampled_ns[device] = now;
	d = &recorder_header()->device[device];
	known = d->reserved + d->other;
	d->total_bytes = total;
	d->untracked = total - free_bytes > known ? total - free_bytes - known : 0;
	device_peak(d);
	recording_event(MT_DEVICE_SAMPLE, device, free_bytes, (int64_t)total, MT_NO_PLACE);
}
