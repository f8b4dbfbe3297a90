#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "background.h"
#include "file.h"
#include "lock.h"
#include "tables.h"

#define FIRST_TABLE_BYTES (64u << 10)
#define FIRST_SEGMENT_BYTES (1u << 20)
#define SEGMENT_BYTES (16u << 20)
#define MIN_SEGMENT_BYTES (64u << 10)
#define MIN_SEGMENTS 4    /* first, peak, current, next: kept whatever the budget */
#define WAIT LOCK_MS(100) /* the longest that a thread of the job waits for the helper, once */

/* A segment as this process has it mapped. */
struct slot {
	struct mt_record *records;
	uint64_t capacity;
	uint64_t wake_at; /* record at which the helper should prepare the next segment */
	struct mt_segment *entry;
	size_t bytes;
	struct mt_record *keyframe; /* NULL: none yet */
};

/* Room for a keyframe that its segment has outgrown. */
struct spare {
	struct mt_record *records; /* NULL: empty */
	uint64_t offset, capacity;
};

static struct {
	struct trace_file file;
	struct lock grow_lock, switch_lock, prepare_lock;
	_Atomic(struct slot *) current; /* NULL: events are not recorded */
	_Atomic(struct slot *) prepared;
	struct slot slot[MT_MAX_SEGMENTS];
	struct spare spare[64];
	size_t segment_bytes;
	uint64_t keyframe_bytes;   /* of the largest so far */
	atomic_int lagging;        /* no segment could be had in time: do not wait for the next */
	_Atomic uint64_t replayed; /* the helper has seen every segment that begins before this
				      sequence number */
	uint64_t kept[2];          /* recorder_protect() */
	int recording;             /* events are to be recorded: those that are not are lost */
} r = { .file = { .fd = -1 } };

struct mt_header *recorder_header(void)
{
	return r.file.header;
}

void recorder_lose_place(void)
{
	__atomic_fetch_add(&r.file.header->lost_places, 1, __ATOMIC_RELAXED);
}

void recorder_lose_event(enum mt_lost reason)
{
	uint32_t nothing = MT_LOST_NOTHING;

	if (!r.recording)
		return;
	__atomic_compare_exchange_n(&r.file.header->lost_reason, &nothing, (uint32_t)reason, 0,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	__atomic_fetch_add(&r.file.header->lost_events, 1, __ATOMIC_RELAXED);
}

void recorder_protect(uint64_t sequence)
{
	r.kept[1] = r.kept[0];
	r.kept[0] = sequence;
}

void *recorder_grow(size_t bytes, uint64_t *offset)
{
	void *p = NULL;

	if (!lock_acquire(&r.grow_lock, WAIT)) {
		errno = EBUSY;
		return NULL;
	}
	if (r.file.fd >= 0)
		p = file_grow(&r.file, bytes, offset);
	lock_release(&r.grow_lock);
	return p;
}

static void stop(enum mt_lost reason, int e)
{
	struct mt_header *h = r.file.header;

	h->lost_reason = reason;
	h->lost_errno = e;
	__atomic_store_n(&h->state, MT_STATE_STOPPED, __ATOMIC_RELEASE);
	atomic_store(&r.current, NULL);
	background_wake();
}

/* Segments are added by whoever prepares one, and looked through by the helper. */
static uint64_t segments(void)
{
	return __atomic_load_n(&r.file.header->segments, __ATOMIC_ACQUIRE);
}

static struct slot *add_slot(void *records, uint64_t offset, size_t bytes)
{
	struct mt_header *h = r.file.header;
	struct slot *s = &r.slot[h->segments];

	*s = (struct slot){ .records = records,
			    .bytes = bytes,
			    .capacity = bytes / sizeof(struct mt_record),
			    .entry = &h->segment[h->segments] };
	s->wake_at = s->capacity / 2;
	*s->entry = (struct mt_segment){ .offset = offset,
					 .capacity = s->capacity,
					 .first_sequence = MT_UNKNOWN };
	__atomic_store_n(&h->segments, h->segments + 1, __ATOMIC_RELEASE);
	return s;
}

static int holds(const struct mt_segment *e, uint64_t sequence)
{
	return sequence >= e->first_sequence && sequence - e->first_sequence < e->capacity;
}

/* May this segment's space be used again? Not the first, the current, one with a peak or an OOM,
 * nor one still to be replayed. */
static int expendable(const struct slot *s)
{
	const struct mt_header *h = r.file.header;
	const struct mt_segment *e = s->entry;

	if (s == atomic_load(&r.current) || s == atomic_load(&r.prepared) ||
	    e->first_sequence == 0 || e->first_sequence == MT_UNKNOWN ||
	    e->first_sequence >= r.replayed)
		return 0;
	for (unsigned d = 0; d < MT_MAX_DEVICES; d++)
		if (h->device[d].allocated_peak && holds(e, h->device[d].peak_sequence))
			return 0;
	return !holds(e, r.kept[0]) && !holds(e, r.kept[1]);
}

/* Takes the oldest segment that may go. NULL: none. */
static struct slot *reuse(void)
{
	struct mt_header *h = r.file.header;
	struct slot *oldest = NULL;

	for (unsigned i = 0; i < segments(); i++)
		if (expendable(&r.slot[i]) &&
		    (!oldest || r.slot[i].entry->first_sequence < oldest->entry->first_sequence))
			oldest = &r.slot[i];
	if (!oldest)
		return NULL;
	__atomic_store_n(&oldest->entry->first_sequence, MT_UNKNOWN, __ATOMIC_RELEASE);
	oldest->entry->has_keyframe = 0;
	h->reused_records += oldest->capacity;
	memset(oldest->records, 0, oldest->capacity * sizeof(struct mt_record));
	__atomic_store_n(&oldest->entry->used, 0, __ATOMIC_RELEASE);
	return oldest;
}

/* Is there a full segment that the helper has not replayed yet? */
static int replay_is_behind(void)
{
	const struct slot *current = atomic_load(&r.current);

	return current && r.replayed < current->entry->first_sequence;
}

/* A segment ready for use: new while the budget lasts, else an old one again. NULL with errno
 * ENOBUFS when there is none now but will be. The prepare lock is held. */
static struct slot *prepare(int touch)
{
	const uint64_t size = r.file.size + r.segment_bytes + r.keyframe_bytes;
	struct slot *old;
	uint64_t offset;
	void *p;

	if (segments() >= MT_MAX_SEGMENTS ||
	    (size > r.file.header->budget && segments() >= MIN_SEGMENTS)) {
		old = reuse();
		errno = ENOBUFS;
		if (old || replay_is_behind() || segments() >= MT_MAX_SEGMENTS)
			return old;
		/* all that is left must be kept: a few segments more than the budget has */
	}
	p = recorder_grow(r.segment_bytes, &offset);
	if (!p)
		return NULL;
	/* The helper touches each page now, so that recording never waits for a first fault. */
	for (size_t k = 0; touch && k < r.segment_bytes; k += 4096)
		((volatile char *)p)[k] = 0;
	return add_slot(p, offset, r.segment_bytes);
}

void recorder_prepare(void)
{
	struct slot *s = atomic_load(&r.current);

	if (!s || atomic_load(&r.prepared) ||
	    __atomic_load_n(&s->entry->used, __ATOMIC_RELAXED) < s->wake_at)
		return;
	if (!lock_acquire(&r.prepare_lock, 0))
		return;
	if (!atomic_load(&r.prepared))
		atomic_store(&r.prepared, prepare(1));
	lock_release(&r.prepare_lock);
}

/* How long this thread may wait: once, not again and again while the disk or the helper lags. */
static uint64_t patience(void)
{
	return atomic_load(&r.lagging) ? 0 : WAIT;
}

/* The helper was too slow: do its work here, and count that. The switch lock is held. */
static struct slot *prepare_inline(void)
{
	struct mt_header *h = r.file.header;
	uint64_t start = now_ns();
	struct slot *next = NULL;

	errno = EBUSY;
	if (lock_acquire(&r.prepare_lock, patience())) {
		next = atomic_exchange(&r.prepared, NULL);
		if (!next)
			next = prepare(0);
		lock_release(&r.prepare_lock);
	}
	h->inline_prepares++;
	h->inline_prepare_ns += now_ns() - start;
	if (!next && errno != EBUSY && errno != ENOBUFS)
		stop(MT_LOST_NO_SPACE, errno);
	return next;
}

/* FULL has no record left: go on to the next segment. NULL: the event is lost, a later one may not
 * be. */
static struct slot *next_slot(struct slot *full)
{
	struct slot *next;

	if (!lock_acquire(&r.switch_lock, patience()))
		return NULL;
	next = atomic_load(&r.current);
	if (next == full) {
		next = atomic_exchange(&r.prepared, NULL);
		if (!next)
			next = prepare_inline();
		if (!atomic_exchange(&r.lagging, !next) || next ||
		    (r.file.header->lost_events & 1023) == 0)
			background_wake();
		if (next) {
			uint64_t first = full->entry->first_sequence + full->capacity;
			__atomic_store_n(&next->entry->first_sequence, first, __ATOMIC_RELEASE);
			atomic_store(&r.current, next);
		} else if (atomic_load(&r.current)) {
			r.file.header->lost_reason = MT_LOST_TOO_SLOW;
		}
	}
	lock_release(&r.switch_lock);
	return next;
}

uint64_t recorder_write(const struct mt_record *record)
{
	struct slot *s = atomic_load_explicit(&r.current, memory_order_acquire);

	while (s) {
		uint64_t i = __atomic_fetch_add(&s->entry->used, 1, __ATOMIC_RELAXED);
		if (__builtin_expect(i < s->capacity, 1)) {
			struct mt_record *out = &s->records[i];
			uint64_t last;
			/* The last 8 bytes hold `kind`: stored at once and last, they make the
			 * record valid. */
			memcpy(&last, &record->place, sizeof(last));
			out->time_ns = record->time_ns;
			out->address = record->address;
			out->bytes = record->bytes;
			__atomic_store_n((uint64_t *)(void *)&out->place, last, __ATOMIC_RELEASE);
			if (__builtin_expect(i == s->wake_at, 0))
				background_wake();
			return s->entry->first_sequence + i;
		}
		s = next_slot(s);
	}
	recorder_lose_event(MT_LOST_BUSY); /* whoever knew another reason has said it */
	return MT_UNKNOWN;
}

int recorder_next_full(struct recorder_full *full)
{
	struct slot *done = NULL, *following = NULL;

	for (unsigned i = 0; i < segments(); i++)
		if (__atomic_load_n(&r.slot[i].entry->first_sequence, __ATOMIC_ACQUIRE) ==
		    r.replayed)
			done = &r.slot[i];
	if (!done)
		return 0;
	for (unsigned i = 0; i < segments(); i++)
		if (__atomic_load_n(&r.slot[i].entry->first_sequence, __ATOMIC_ACQUIRE) ==
		    r.replayed + done->capacity)
			following = &r.slot[i];
	if (!following)
		return 0;
	*full = (struct recorder_full){ .records = done->records,
					.count = done->capacity,
					.following = following->entry };
	return 1;
}

/* Exchanges the slot's keyframe space for one of RECORDS or more that another segment has outgrown.
 */
static int swap_for_spare(struct slot *s, uint64_t records)
{
	struct spare *best = NULL, *empty = NULL, old;

	for (unsigned i = 0; i < sizeof(r.spare) / sizeof(r.spare[0]); i++) {
		struct spare *p = &r.spare[i];
		if (!p->records)
			empty = p;
		else if (p->capacity >= records && (!best || p->capacity < best->capacity))
			best = p;
	}
	old = (struct spare){ s->keyframe, s->entry->keyframe_offset, s->entry->keyframe_capacity };
	if (!best) {
		if (empty)
			*empty = old;
		return 0;
	}
	s->keyframe = best->records;
	s->entry->keyframe_offset = best->offset;
	s->entry->keyframe_capacity = best->capacity;
	*best = old;
	return 1;
}

struct mt_record *recorder_keyframe_space(const struct recorder_full *full, uint64_t records)
{
	struct slot *s = &r.slot[full->following - r.file.header->segment];
	uint64_t room = records + records / 4 + 1, offset;
	size_t bytes = (room * sizeof(struct mt_record) + 4095) & ~(size_t)4095;
	struct mt_record *p;

	if (records <= s->entry->keyframe_capacity || swap_for_spare(s, records))
		return s->keyframe;
	p = recorder_grow(bytes, &offset);
	s->keyframe = p;
	s->entry->keyframe_offset = p ? offset : 0;
	s->entry->keyframe_capacity = p ? bytes / sizeof(struct mt_record) : 0;
	if (bytes > r.keyframe_bytes)
		r.keyframe_bytes = bytes;
	return p;
}

void recorder_full_done(const struct recorder_full *full)
{
	r.replayed += full->count;
	/* The pages stay in the file; only this process's mapping of them goes, so that the job's
	 * memory does not grow. */
	madvise((void *)(uintptr_t)full->records, full->count * sizeof(struct mt_record),
		MADV_DONTNEED);
}

/* Segments of a sixteenth of the budget, so that giving one up loses little; the first is small,
 * for small jobs. */
static size_t choose_sizes(uint64_t budget)
{
	uint64_t each = budget / 16 & ~(uint64_t)(MIN_SEGMENT_BYTES - 1);

	r.segment_bytes = each > SEGMENT_BYTES       ? SEGMENT_BYTES
			  : each < MIN_SEGMENT_BYTES ? MIN_SEGMENT_BYTES
						     : (size_t)each;
	return r.segment_bytes < FIRST_SEGMENT_BYTES ? r.segment_bytes : FIRST_SEGMENT_BYTES;
}

int recorder_open(const struct recorder_setup *setup)
{
	struct mt_header *h;
	size_t first;
	int e;

	memset(&r, 0, sizeof(r));
	r.kept[0] = r.kept[1] = MT_UNKNOWN;
	first = choose_sizes(setup->budget);
	if (setup->counters_only)
		first = 0;
	e = file_create(&r.file, setup->directory, setup->name, FIRST_TABLE_BYTES + first);
	if (e)
		return e;
	h = r.file.header;
	h->version = MT_VERSION;
	h->byte_order = MT_BYTE_ORDER;
	h->header_bytes = MT_HEADER_BYTES;
	h->record_bytes = sizeof(struct mt_record);
	h->exit_status = -1;
	h->budget = setup->budget;
	if (tables_open(&r.file, (char *)h + MT_HEADER_BYTES, MT_HEADER_BYTES, FIRST_TABLE_BYTES) !=
	    0) {
		file_discard(&r.file, setup->directory, setup->name);
		return -ENOMEM;
	}
	if (setup->counters_only) {
		h->lost_reason = MT_LOST_NOT_CHOSEN;
	} else {
		struct slot *s = add_slot((char *)h + MT_HEADER_BYTES + FIRST_TABLE_BYTES,
					  MT_HEADER_BYTES + FIRST_TABLE_BYTES, first);
		s->entry->first_sequence = 0;
		s->entry->has_keyframe = 1; /* nothing was live */
		atomic_store(&r.current, s);
		r.recording = 1;
	}
	h->state = setup->counters_only ? MT_STATE_STOPPED : MT_STATE_RECORDING;
	memcpy(h->magic, MT_MAGIC, sizeof(h->magic));
	return 0;
}

/*
 * Gives the unused end of the file back: the segment prepared ahead, and the rest of the last one,
 * where they are the last regions. Only when the helper is gone and no thread prepares; a region
 * that some thread has just been given makes the file longer than these two say. Writers that still
 * run have reserved below what `used` was at the seal, and since `used` then stays past this
 * process's capacity, none can reserve after it: nothing is written to what is cut off.
 */
static void give_back(struct slot *last)
{
	const uint64_t used = (last->entry->capacity * sizeof(struct mt_record) + 4095) & ~4095ull;
	const struct slot *ahead = atomic_load(&r.prepared);
	uint64_t end = r.file.size;

	if (ahead && ahead->entry->offset + ahead->bytes == end) {
		end = ahead->entry->offset;
		*ahead->entry = (struct mt_segment){ .first_sequence = MT_UNKNOWN };
	}
	if (last->entry->offset + last->bytes == end)
		end = last->entry->offset + used;
	if (end != r.file.size)
		(void)!ftruncate(r.file.fd, (off_t)end);
}

static void seal(struct slot *s, int helper_gone)
{
	uint64_t used = __atomic_fetch_add(&s->entry->used, s->capacity, __ATOMIC_ACQ_REL);

	if (used < s->capacity)
		s->entry->capacity = used;
	if (helper_gone && lock_acquire(&r.prepare_lock, WAIT)) {
		give_back(s);
		lock_release(&r.prepare_lock);
	}
}

void recorder_close(int exit_status, int helper_gone)
{
	struct mt_header *h = r.file.header;
	struct slot *s;

	if (!h)
		return;
	if (!lock_acquire(&r.switch_lock, WAIT))
		return;
	s = atomic_exchange(&r.current, NULL);
	if (s && lock_acquire(&r.grow_lock, WAIT)) {
		seal(s, helper_gone);
		lock_release(&r.grow_lock);
	}
	h->exit_status = exit_status;
	h->end_ns = now_ns() - h->start_monotonic_ns;
	r.recording = 0;
	__atomic_store_n(&h->state, MT_STATE_ENDED, __ATOMIC_RELEASE);
	close(r.file.fd);
	r.file.fd = -1;
	lock_release(&r.switch_lock);
}

void recorder_forget(void)
{
	if (r.file.fd >= 0)
		close(r.file.fd);
	memset(&r, 0, sizeof(r));
	r.file.fd = -1;
}
