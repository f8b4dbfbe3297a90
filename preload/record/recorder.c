#define _GNU_SOURCE
#include "record/recorder.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record/helper.h"
#include "record/keyframe.h"
#include "base/lock.h"
#include "record/last_event.h"
#include "record/losses.h"
#include "record/regions.h"
#include "record/segments.h"
#include "record/spawn.h"
#include "record/tables.h"
#include "record/writer.h"

#define FIRST_TABLE_BYTES (64u << 10)
#define WAIT LOCK_MS(40) /* the longest that a thread of the job waits for the helper, once */
#define WAIT_FOR_ROOM LOCK_MS(20) /* the same for a segment that can be used again */
#define BEYOND_BUDGET (64u << 20)
#define LARGEST_BUDGET \
	(1ull << 40) /* bytes: no job fills more, and twice the value must not overflow */

static struct {
	struct writer_control *control;
	struct mt_header *header;
	struct lock switch_lock;
	int has_process;
	atomic_int lagging; /* no segment was ready in time: do not wait for the next */
} recorder;

struct mt_header *recorder_header(void)
{
	return recorder.header;
}

struct writer_control *recorder_control(void)
{
	return recorder.control;
}

int recorder_has_process(void)
{
	return recorder.has_process;
}

void recorder_protect(uint64_t sequence)
{
	segments_protect(sequence);
}

void recorder_stop(enum mt_lost reason, int e)
{
	struct mt_header *h = recorder.header;
	uint32_t recording = MT_STATE_RECORDING;

	h->lost_reason = reason;
	h->lost_errno = e;
	__atomic_compare_exchange_n(&h->state, &recording, MT_STATE_STOPPED, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	atomic_store(&segments.current, NULL);
	helper_wake();
}

/* The time that this thread may wait. One thread waits; later threads do not wait while the disk or
 * the helper is late. */
static uint64_t patience(void)
{
	return atomic_load(&recorder.lagging) ? 0 : WAIT;
}

/* Waits until a segment can be given up: the helper has replayed it and the file contains it. The
 * caller holds the prepare lock. */
static struct segment *wait_for_room(uint64_t start)
{
	struct segment *next = NULL;

	writer_wake(recorder.control);
	helper_wake();
	while (!next && errno == ENOBUFS && now_ns() - start < WAIT_FOR_ROOM) {
		lock_pause();
		next = segments_prepare();
	}
	return next;
}

/* Does the helper's work on this thread, because the helper is too slow or does not exist. NULL:
 * there is no segment now; or there will be none, and recording has stopped. The caller holds the
 * switch lock. */
static struct segment *prepare_inline(void)
{
	struct mt_header *h = recorder.header;
	uint64_t start = now_ns();
	struct segment *next = NULL;

	if (!helper_is_running())
		keyframe_work();
	errno = EBUSY;
	if (lock_acquire(&segments.prepare_lock, patience())) {
		next = atomic_exchange(&segments.prepared, NULL);
		if (!next)
			next = segments_prepare();
		if (!next && errno == ENOBUFS && patience())
			next = wait_for_room(start);
		lock_release(&segments.prepare_lock);
	}
	__atomic_fetch_add(&h->inline_prepares, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&h->inline_prepare_ns, now_ns() - start, __ATOMIC_RELAXED);
	if (!next && errno != EBUSY && errno != ENOBUFS)
		recorder_stop(MT_LOST_NO_SPACE, errno);
	return next;
}

/* Switches from FULL, which has no free record, to the next segment. NULL: this event is lost, but
 * a later one may be recorded. */
static struct segment *next_segment(struct segment *full, enum mt_lost *reason)
{
	struct segment *next;

	*reason = MT_LOST_BUSY;
	if (!lock_acquire(&recorder.switch_lock, patience())) {
		atomic_store(&recorder.lagging, 1);
		return NULL;
	}
	next = atomic_load(&segments.current);
	if (next == full) {
		next = atomic_exchange(&segments.prepared, NULL);
		if (!next)
			next = prepare_inline();
		if (!atomic_exchange(&recorder.lagging, !next) || next ||
		    (__atomic_load_n(&recorder.header->lost_events, __ATOMIC_RELAXED) & 1023) == 0)
			helper_wake();
		if (next) {
			uint64_t first = full->entry->first_sequence + full->capacity;
			__atomic_store_n(&next->entry->first_sequence, first, __ATOMIC_RELEASE);
			atomic_store(&segments.current, next);
			if (segments_count() * segments.bytes > recorder.header->budget / 2)
				writer_wake(recorder.control);
		} else {
			*reason = segments_are_unwritten() ? MT_LOST_STALLED : MT_LOST_TOO_SLOW;
		}
	}
	lock_release(&recorder.switch_lock);
	return next;
}

uint64_t recorder_write(uint64_t time, uint64_t address, int64_t bytes, uint64_t last)
{
	struct segment *s = atomic_load_explicit(&segments.current, memory_order_acquire);
	enum mt_lost reason = MT_LOST_NOTHING;

	while (s) {
		uint64_t i = __atomic_fetch_add(&s->entry->used, 1, __ATOMIC_RELAXED);
		if (__builtin_expect(i < s->capacity, 1)) {
			struct mt_record *out = &s->records[i];
			last_event.next_record = out + 1;
			last_event.used = &s->entry->used;
			out->time_ns = time;
			out->address = address;
			out->bytes = bytes;
			/* The last 8 bytes contain `kind`. They are stored last, in one store, and
			 * make the record valid. */
			__atomic_store_n((uint64_t *)(void *)&out->stack, last, __ATOMIC_RELEASE);
			if (__builtin_expect(i == s->wake_at, 0))
				helper_wake();
			return s->entry->first_sequence + i;
		}
		s = next_segment(s, &reason);
	}
	losses_count(reason);
	return MT_UNKNOWN;
}

uint64_t recorder_next_sequence(void)
{
	const struct segment *s = atomic_load_explicit(&segments.current, memory_order_acquire);
	uint64_t used;

	if (!s)
		return MT_UNKNOWN;
	used = __atomic_load_n(&s->entry->used, __ATOMIC_RELAXED);
	return s->entry->first_sequence + (used < s->capacity ? used : s->capacity);
}

/* Makes the memory of the recording. If wanted and possible, starts the process that writes the
 * file. */
static int make_memory(const struct recorder_setup *setup, size_t least)
{
	const uint64_t budget = setup->budget < LARGEST_BUDGET ? setup->budget : LARGEST_BUDGET;
	const size_t wanted = WRITER_CONTROL_BYTES + 2 * (size_t)budget + BEYOND_BUDGET;
	size_t got = 0;
	void *p = setup->with_process ? spawn_writer(wanted, &got) : NULL;

	recorder.has_process = p != NULL;
	if (!p)
		p = spawn_memory_only(wanted, &got);
	if (!p)
		return -ENOMEM;
	if (got < WRITER_CONTROL_BYTES + least)
		return -EFBIG;
	recorder.control = p;
	recorder.control->image_bytes = (got - WRITER_CONTROL_BYTES) & ~(size_t)4095;
	recorder.header = writer_image(recorder.control);
	regions_begin(recorder.control, least);
	return 0;
}

static int copy_text(char *to, size_t bytes, const char *from)
{
	size_t n = strlen(from);

	if (n >= bytes)
		return -ENAMETOOLONG;
	memcpy(to, from, n + 1);
	return 0;
}

int recorder_open(const struct recorder_setup *setup)
{
	const size_t first = setup->counters_only ? 0 : segments_first_bytes(setup->budget);
	char *image;
	int e;

	memset(&recorder, 0, sizeof(recorder));
	e = make_memory(setup, MT_HEADER_BYTES + FIRST_TABLE_BYTES + first);
	if (!e)
		e = copy_text(recorder.control->directory, sizeof(recorder.control->directory),
			      setup->directory);
	if (!e)
		e = copy_text(recorder.control->name, sizeof(recorder.control->name), setup->name);
	if (e)
		return e;
	image = (char *)recorder.header;
	recorder.header->version = MT_VERSION;
	recorder.header->byte_order = MT_BYTE_ORDER;
	recorder.header->header_bytes = MT_HEADER_BYTES;
	recorder.header->record_bytes = sizeof(struct mt_record);
	recorder.header->exit_status = -1;
	recorder.header->budget = setup->budget;
	if (tables_open(recorder.header, image + MT_HEADER_BYTES, MT_HEADER_BYTES,
			FIRST_TABLE_BYTES) != 0)
		return -ENOMEM;
	segments_open(recorder.control, setup->budget, image + MT_HEADER_BYTES + FIRST_TABLE_BYTES,
		      MT_HEADER_BYTES + FIRST_TABLE_BYTES, first);
	if (setup->counters_only)
		recorder.header->lost_reason = MT_LOST_NOT_CHOSEN;
	losses_begin(recorder.header, !setup->counters_only);
	recorder.header->state = setup->counters_only ? MT_STATE_STOPPED : MT_STATE_RECORDING;
	return 0;
}

void recorder_begin(void)
{
	memcpy(recorder.header->magic, MT_MAGIC, sizeof(recorder.header->magic));
	writer_begin(recorder.control, recorder.has_process);
}

/* Stops the reservation of records in the segment: `used` stays above its capacity. */
static void seal(struct segment *s)
{
	uint64_t used = __atomic_fetch_add(&s->entry->used, s->capacity, __ATOMIC_ACQ_REL);

	if (used < s->capacity)
		s->entry->capacity = used;
}

void recorder_close(int exit_status)
{
	struct mt_header *h = recorder.header;
	int held = lock_acquire(&recorder.switch_lock, WAIT);
	struct segment *s = atomic_exchange(&segments.current, NULL);

	if (s)
		seal(s);
	h->exit_status = exit_status;
	h->end_ns = now_ns() - h->start_monotonic_ns;
	losses_end();
	__atomic_store_n(&h->state, MT_STATE_ENDED, __ATOMIC_RELEASE);
	if (held)
		lock_release(&recorder.switch_lock);
}

void recorder_discard(void)
{
	losses_end();
	atomic_store(&segments.current, NULL);
	madvise((char *)recorder.header + MT_HEADER_BYTES,
		recorder.control->image_bytes - MT_HEADER_BYTES, MADV_REMOVE);
}

void recorder_forget(void)
{
	memset(&recorder, 0, sizeof(recorder));
	memset(&segments, 0, sizeof(segments));
	regions_forget();
	losses_end();
}
