#define _GNU_SOURCE
#include "account.h"

#include <stdatomic.h>
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
	uint64_t graphs[MT_MAX_DEVICES];
	uint64_t nccl[MT_MAX_DEVICES]; /* of `other`, what NCCL took */
	_Atomic uint64_t nccl_all;
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
		  int *new_peak)
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
	*new_peak = allocated > d->allocated_peak;
	if (*new_peak)
		d->allocated_peak = allocated;
	if (__builtin_expect(changed, 0)) {
		d->reserved = reserved;
		if (reserved > d->reserved_peak)
			d->reserved_peak = reserved;
		device_peak(d);
	}
	return changed;
}

int account_reports(unsigned device)
{
	/* The first segment is there before the first report: from the second call on it is told.
	 */
	return a.reports[device] || recorder_header()->device[device].allocs < 2;
}

void account_peak_at(unsigned device, uint64_t sequence)
{
	if (sequence != MT_UNKNOWN)
		recorder_header()->device[device].peak_sequence = sequence;
}

/* The lock is held. BYTES (signed) more of the device are held by PyTorch's allocator, or by anyone
 * else. */
static void held(struct mt_device *d, int64_t bytes, int by_allocator)
{
	uint64_t *which = by_allocator ? &d->reserved : &d->other;

	*which += (uint64_t)bytes;
	if (d->reserved > d->reserved_peak)
		d->reserved_peak = d->reserved;
	device_peak(d);
}

int account_device(unsigned device, int64_t bytes, int64_t from_device, const struct module *by)
{
	struct mt_device *d;
	int new_peak = 0;

	if (device >= MT_MAX_DEVICES)
		return 0;
	if (!lock_acquire(&a.lock, LOCK_WAIT)) {
		recorder_lose_event(MT_LOST_BUSY);
		return 0;
	}
	d = &recorder_header()->device[device];
	if (by->is_nccl) {
		a.nccl[device] += (uint64_t)from_device;
		atomic_fetch_add(&a.nccl_all, (uint64_t)from_device);
	}
	if (!by->is_allocator) {
		held(d, from_device, 0);
	} else if (!a.reports[device]) {
		d->allocated += (uint64_t)bytes;
		d->allocs += bytes > 0;
		d->frees += bytes < 0;
		new_peak = d->allocated > d->allocated_peak;
		if (new_peak)
			d->allocated_peak = d->allocated;
		held(d, from_device, 1);
	}
	lock_release(&a.lock);
	return new_peak;
}

/* A level is recorded before the next one can be. */
void account_pool(unsigned device, int64_t change, uint64_t level, int by_allocator)
{
	if (!recorder_header() || !lock_acquire(&a.lock, LOCK_WAIT))
		return;
	held(&recorder_header()->device[device], change, by_allocator);
	recording_event(MT_POOL_RESERVED, device, 0, (int64_t)level, MT_NO_PLACE);
	lock_release(&a.lock);
}

void account_graphs(unsigned device, uint64_t level)
{
	if (a.graphs[device] == level || !lock_acquire(&a.lock, LOCK_WAIT))
		return;
	if (a.graphs[device] != level) {
		held(&recorder_header()->device[device], (int64_t)(level - a.graphs[device]), 0);
		a.graphs[device] = level;
		recording_event(MT_GRAPH_RESERVED, device, 0, (int64_t)level, MT_NO_PLACE);
	}
	lock_release(&a.lock);
}

void account_oom(unsigned device)
{
	recorder_header()->device[device].ooms++;
}

static void sample(unsigned device, uint64_t now)
{
	uint64_t free_bytes, total, known;
	struct mt_device *d;

	if (cuda_current_device() != (int)device || cuda_memory(&free_bytes, &total) != 0)
		return;
	a.sampled_ns[device] = now;
	d = &recorder_header()->device[device];
	known = d->reserved + d->other;
	d->total_bytes = total;
	d->untracked = total - free_bytes > known ? total - free_bytes - known : 0;
	device_peak(d);
	recording_event(MT_DEVICE_SAMPLE, device, free_bytes, (int64_t)total, MT_NO_PLACE);
}

void account_sample(unsigned device)
{
	uint64_t now = now_ns();

	if (device < MT_MAX_DEVICES && now - a.sampled_ns[device] >= SAMPLE_EVERY_NS)
		sample(device, now);
}

void account_sample_now(unsigned device)
{
	if (device < MT_MAX_DEVICES)
		sample(device, now_ns());
}

struct account_level account_level(unsigned device)
{
	struct account_level level = { .free_bytes = MT_UNKNOWN };
	const struct mt_device *d;
	uint64_t total;

	if (device >= MT_MAX_DEVICES)
		return level;
	d = &recorder_header()->device[device];
	level.known = d->reserved + d->other;
	level.nccl = a.nccl[device];
	if (cuda_current_device() != (int)device || cuda_memory(&level.free_bytes, &total) != 0)
		level.free_bytes = MT_UNKNOWN;
	return level;
}

uint64_t account_nccl_took(const struct account_level *before, const struct account_level *after)
{
	int64_t own = (int64_t)(after->nccl - before->nccl), all = own;

	if (before->free_bytes != MT_UNKNOWN && after->free_bytes != MT_UNKNOWN)
		all = (int64_t)(before->free_bytes - after->free_bytes) -
		      ((int64_t)(after->known - before->known) - own);
	all = all > own ? all : own;
	return all > 0 ? (uint64_t)all : 0;
}

uint64_t account_nccl(void)
{
	return atomic_load_explicit(&a.nccl_all, memory_order_relaxed);
}
