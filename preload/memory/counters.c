#define _GNU_SOURCE
#include "memory/counters.h"

#include <stdatomic.h>
#include <string.h>

#include "memory/cuda.h"
#include "memory/graphs.h"
#include "base/lock.h"
#include "record/losses.h"
#include "record/recorder.h"
#include "record/event.h"
#include "record/last_event.h"
#include "record/state.h"
#include "record/tables.h"

#define SAMPLE_EVERY_NS 10000000u
#define UNREPORTED_AFTER_NS 5000000000u

static struct {
	struct lock lock;                   /* counters_device(): CUDA calls come from any thread */
	uint8_t reports[MT_MAX_DEVICES];    /* PyTorch's allocator reports blocks here */
	atomic_uchar owed[MT_MAX_DEVICES];  /* a sample came too soon: still to be taken */
	atomic_uchar quiet[MT_MAX_DEVICES]; /* it reports, and no sample is owed: a report is just
					       counted */
	_Atomic uint64_t sampled_ns[MT_MAX_DEVICES];
	uint64_t graphs[MT_MAX_DEVICES];
	uint64_t nccl[MT_MAX_DEVICES]; /* the part of `other` that NCCL took */
	_Atomic uint64_t nccl_all;
	_Atomic uint64_t
		unreported_ns; /* when a renamed allocator first took memory; 0: none has */
	int has_reported_unreported;
} a;

void counters_forget(void)
{
	memset(&a, 0, sizeof(a));
}

/* Counters are read by other threads and the writer while they change: each is one store of 8
 * bytes. */
#define GET(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)
#define SET(counter, value) __atomic_store_n(&(counter), (value), __ATOMIC_RELAXED)

/* Threads of PyTorch's allocator, of CUDA calls and of samples raise the peak without a common
 * lock; it never decreases. */
static void raise_device_peak(struct mt_device *d)
{
	uint64_t all = GET(d->reserved) + GET(d->other) + GET(d->untracked),
		 peak = GET(d->device_peak);

	while (all > peak)
		if (__atomic_compare_exchange_n(&d->device_peak, &peak, all, 1, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			SET(d->device_peak_sequence, recorder_next_sequence() + 1);
			break;
		}
}

__attribute__((noinline, cold)) static void count_first_report(unsigned device, struct mt_device *d)
{
	/* Until now the allocator's segments, its CUDA calls, stood for its blocks. */
	a.reports[device] = 1;
	SET(d->allocated, 0);
	SET(d->allocated_peak, 0);
	SET(d->reserved, 0);
	SET(d->reserved_peak, 0);
	SET(d->allocs, 0);
	SET(d->frees, 0);
}

/* The counters of DEVICE are up to date: takes an owed sample. */
__attribute__((noinline, cold)) static void settle_owed(unsigned device)
{
	counters_sample_owed(device);
	atomic_store(&a.quiet[device], 1);
	if (atomic_load(&a.owed[device]))
		atomic_store(&a.quiet[device], 0);
}

int counters_block(unsigned device, int64_t bytes, uint64_t allocated, uint64_t reserved,
		   int *new_peak)
{
	struct mt_device *d = &recorder_header()->device[device];
	int quiet = atomic_load_explicit(&a.quiet[device], memory_order_relaxed), changed;

	last_event.device = d;
	if (__builtin_expect(!quiet && !a.reports[device], 0))
		count_first_report(device, d);
	changed = GET(d->reserved) != reserved;
	SET(d->allocated, allocated);
	if (bytes > 0)
		SET(d->allocs, GET(d->allocs) + 1);
	else
		SET(d->frees, GET(d->frees) + 1);
	*new_peak = allocated > GET(d->allocated_peak);
	if (*new_peak)
		SET(d->allocated_peak, allocated);
	if (__builtin_expect(changed, 0)) {
		SET(d->reserved, reserved);
		if (reserved > GET(d->reserved_peak))
			SET(d->reserved_peak, reserved);
		raise_device_peak(d);
	} else if (__builtin_expect(!quiet, 0)) {
		settle_owed(device);
	}
	return changed;
}

int counters_reports(unsigned device)
{
	/* The first segment comes before the first report: until the second call, the answer is
	 * 1. */
	return a.reports[device] || recorder_header()->device[device].allocs < 2;
}

void counters_peak_at(unsigned device, uint64_t sequence)
{
	if (sequence != MT_UNKNOWN)
		recorder_header()->device[device].peak_sequence = sequence;
}

/* The lock is held. PyTorch's allocator, or another owner, holds BYTES (signed) more of the
 * device. */
static void change_held(struct mt_device *d, int64_t bytes, int by_allocator)
{
	uint64_t *which = by_allocator ? &d->reserved : &d->other;

	SET(*which, GET(*which) + (uint64_t)bytes);
	if (GET(d->reserved) > GET(d->reserved_peak))
		SET(d->reserved_peak, GET(d->reserved));
	raise_device_peak(d);
}

int counters_device(unsigned device, int64_t bytes, int64_t from_device, const struct module *by)
{
	struct mt_device *d;
	int new_peak = 0;

	if (device >= MT_MAX_DEVICES) {
		if (bytes > 0) /* a device beyond those that have counters */
			losses_count(MT_LOST_LIMIT);
		return 0;
	}
	if (!lock_acquire(&a.lock, LOCK_WAIT)) {
		losses_count(MT_LOST_BUSY);
		return 0;
	}
	d = &recorder_header()->device[device];
	if (by->is_nccl) {
		a.nccl[device] += (uint64_t)from_device;
		atomic_fetch_add(&a.nccl_all, (uint64_t)from_device);
	}
	if (!by->is_allocator) {
		change_held(d, from_device, 0);
	} else if (!a.reports[device]) {
		if (by->is_renamed && !atomic_load(&a.unreported_ns))
			atomic_store(&a.unreported_ns, now_ns());
		d->allocated += (uint64_t)bytes;
		d->allocs += bytes > 0;
		d->frees += bytes < 0;
		new_peak = d->allocated > d->allocated_peak;
		if (new_peak)
			d->allocated_peak = d->allocated;
		change_held(d, from_device, 1);
	}
	lock_release(&a.lock);
	return new_peak;
}

/* The lock is kept while the level is recorded, so that levels are recorded in their order. */
void counters_pool(unsigned device, int64_t change, uint64_t level, int by_allocator)
{
	if (!recorder_header())
		return;
	if (!lock_acquire(&a.lock, LOCK_WAIT)) {
		losses_count(MT_LOST_BUSY);
		return;
	}
	change_held(&recorder_header()->device[device], change, by_allocator);
	event_write(MT_POOL_RESERVED, device, 0, (int64_t)level, MT_NO_STACK);
	lock_release(&a.lock);
}

int counters_graphs(unsigned device, uint64_t level)
{
	if (!lock_acquire(&a.lock, LOCK_WAIT))
		return 0;
	if (a.graphs[device] != level) {
		change_held(&recorder_header()->device[device], (int64_t)(level - a.graphs[device]),
			    0);
		a.graphs[device] = level;
		event_write(MT_GRAPH_RESERVED, device, 0, (int64_t)level, MT_NO_STACK);
	}
	lock_release(&a.lock);
	return 1;
}

void counters_oom(unsigned device)
{
	recorder_header()->device[device].ooms++;
}

void counters_refused(unsigned device)
{
	recorder_header()->device[device].refused++;
}

static void take_sample(unsigned device, uint64_t now)
{
	uint64_t free_bytes, total, known;
	struct mt_device *d;

	if (cuda_current_device() != (int)device || cuda_memory(&free_bytes, &total) != 0)
		return;
	atomic_store_explicit(&a.sampled_ns[device], now, memory_order_relaxed);
	atomic_store(&a.owed[device], 0);
	d = &recorder_header()->device[device];
	known = __atomic_load_n(&d->reserved, __ATOMIC_RELAXED) +
		__atomic_load_n(&d->other, __ATOMIC_RELAXED);
	d->total_bytes = total;
	__atomic_store_n(&d->untracked, total - free_bytes > known ? total - free_bytes - known : 0,
			 __ATOMIC_RELAXED);
	raise_device_peak(d);
	event_write(MT_DEVICE_SAMPLE, device, free_bytes, (int64_t)total, MT_NO_STACK);
}

static int is_due(unsigned device, uint64_t now)
{
	uint64_t last = atomic_load_explicit(&a.sampled_ns[device], memory_order_relaxed);

	return now - last >= SAMPLE_EVERY_NS;
}

void counters_sample(unsigned device)
{
	uint64_t now = now_ns();

	if (device >= MT_MAX_DEVICES)
		return;
	if (is_due(device, now)) {
		take_sample(device, now);
	} else {
		atomic_store(&a.owed[device], 1);
		atomic_store(&a.quiet[device], 0);
	}
}

void counters_sample_owed(unsigned device)
{
	uint64_t now;

	if (device >= MT_MAX_DEVICES ||
	    !atomic_load_explicit(&a.owed[device], memory_order_relaxed))
		return;
	now = now_ns();
	if (is_due(device, now))
		take_sample(device, now);
}

void counters_sample_now(unsigned device)
{
	if (device < MT_MAX_DEVICES)
		take_sample(device, now_ns());
}

/* A statically linked PyTorch calls its own report functions, not ours. The note is written after
 * some seconds without a report, or at the end of the process. */
void counters_note_unreported(void)
{
	static const char why[] =
		"PyTorch's allocator is not in a libc10_cuda.so and reports no blocks that can be seen "
		"(a static or monolithic build): what it asked CUDA for stands for tensors";
	uint64_t since = atomic_load(&a.unreported_ns);

	if (!since || a.has_reported_unreported ||
	    (recording_already() && now_ns() - since < UNREPORTED_AFTER_NS))
		return;
	for (unsigned d = 0; d < MT_MAX_DEVICES; d++)
		if (a.reports[d])
			return;
	a.has_reported_unreported = 1;
	tables_meta(MT_META_NOTE, "reports", why, sizeof(why) - 1);
}

struct counters_level counters_level(unsigned device)
{
	struct counters_level level = { .free_bytes = MT_UNKNOWN };
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

uint64_t counters_nccl_took(const struct counters_level *before, const struct counters_level *after)
{
	int64_t own = (int64_t)(after->nccl - before->nccl), all = own;

	if (before->free_bytes != MT_UNKNOWN && after->free_bytes != MT_UNKNOWN)
		all = (int64_t)(before->free_bytes - after->free_bytes) -
		      ((int64_t)(after->known - before->known) - own);
	all = all > own ? all : own;
	return all > 0 ? (uint64_t)all : 0;
}

uint64_t counters_nccl(void)
{
	return atomic_load_explicit(&a.nccl_all, memory_order_relaxed);
}
