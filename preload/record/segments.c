#define _GNU_SOURCE
#include "record/segments.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "record/regions.h"

#define FIRST_SEGMENT_BYTES (1u << 20)
#define SEGMENT_BYTES (16u << 20)
#define MIN_SEGMENT_BYTES (64u << 10)
#define MIN_SEGMENTS 4 /* first, peak, current, next: kept with any budget */
#define FIRST_KEPT 4   /* the first failures for lack of memory to keep; and as many latest ones */

struct segments segments;

/* Memory of a keyframe of a run that was given up. */
struct spare {
	struct mt_record *records; /* NULL: empty */
	uint64_t offset, capacity;
};

static struct spare spare[MT_MAX_SEGMENTS];

static uint64_t kept[2 * FIRST_KEPT];
static unsigned kept_count;

void segments_protect(uint64_t sequence)
{
	unsigned at =
		kept_count < 2 * FIRST_KEPT ? kept_count : FIRST_KEPT + kept_count % FIRST_KEPT;

	__atomic_store_n(&kept[at], sequence, __ATOMIC_RELAXED);
	kept_count++;
}

/* Chooses a sixteenth of the budget, so that a segment that is given up loses little. The first
 * segment is small, for small jobs. */
static size_t choose_bytes(uint64_t budget)
{
	uint64_t each = budget / 16 & ~(uint64_t)(MIN_SEGMENT_BYTES - 1);

	return each > SEGMENT_BYTES       ? SEGMENT_BYTES
	       : each < MIN_SEGMENT_BYTES ? MIN_SEGMENT_BYTES
					  : (size_t)each;
}

size_t segments_first_bytes(uint64_t budget)
{
	size_t bytes = choose_bytes(budget);

	return bytes < FIRST_SEGMENT_BYTES ? bytes : FIRST_SEGMENT_BYTES;
}

/* Any thread that prepares a segment adds it, and the helper reads the list. */
uint64_t segments_count(void)
{
	return __atomic_load_n(&segments.header->segments, __ATOMIC_ACQUIRE);
}

static uint64_t first_of(const struct segment *s)
{
	return __atomic_load_n(&s->entry->first_sequence, __ATOMIC_ACQUIRE);
}

static struct segment *add_segment(void *records, uint64_t offset, size_t bytes)
{
	struct mt_header *h = segments.header;
	struct segment *s = &segments.slot[h->segments];

	*s = (struct segment){ .records = records,
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

void segments_open(struct writer_control *control, uint64_t budget, void *records, uint64_t offset,
		   size_t bytes)
{
	struct segment *s;

	memset(&segments, 0, sizeof(segments));
	memset(spare, 0, sizeof(spare));
	kept_count = 0;
	for (unsigned i = 0; i < 2 * FIRST_KEPT; i++)
		kept[i] = MT_UNKNOWN;
	segments.control = control;
	segments.header = writer_image(control);
	segments.bytes = choose_bytes(budget);
	if (!bytes)
		return;
	s = add_segment(records, offset, bytes);
	s->entry->first_sequence = 0;
	s->entry->has_keyframe = 1; /* an empty keyframe: nothing was live */
	atomic_store(&segments.current, s);
}

struct segment *segments_at(uint64_t first)
{
	for (unsigned i = 0; i < segments_count(); i++)
		if (first_of(&segments.slot[i]) == first)
			return &segments.slot[i];
	return NULL;
}

static int holds(const struct segment *s, uint64_t sequence)
{
	uint64_t first = first_of(s);

	return sequence >= first && sequence - first < s->capacity;
}

/* Does S contain a record that must stay: a peak, or a failure for lack of memory? ONLY_ENDS, when
 * there is no room for all failures: only the first and the latest failure stay. */
static int is_protected(const struct segment *s, int only_ends)
{
	const unsigned latest = kept_count > 2 * FIRST_KEPT
					? FIRST_KEPT + (kept_count - 1) % FIRST_KEPT
				: kept_count ? kept_count - 1
					     : 0;
	const struct mt_header *h = segments.header;

	for (unsigned d = 0; d < MT_MAX_DEVICES; d++) {
		const struct mt_device *device = &h->device[d];
		uint64_t at = device->device_peak_sequence; /* the peak's event is the one before or
							       the one at `at` - 1 */

		if ((device->allocated_peak && holds(s, device->peak_sequence)) ||
		    (at && (holds(s, at - 1) || holds(s, at - (at > 1) - 1))))
			return 1;
	}
	for (unsigned i = 0; i < 2 * FIRST_KEPT; i++)
		if ((!only_ends || i == 0 || i == latest) &&
		    holds(s, __atomic_load_n(&kept[i], __ATOMIC_RELAXED)))
			return 1;
	return 0;
}

static int is_written(const struct segment *s)
{
	const size_t i = (size_t)(s - segments.slot);
	uint64_t first = first_of(s);

	return atomic_load(&segments.control->written[i]) == first + s->capacity &&
	       (!s->entry->has_keyframe || !first ||
		atomic_load(&segments.control->keyframe_written[i]) == first + 1);
}

static int is_expendable(const struct segment *s, int only_ends)
{
	return s != atomic_load(&segments.current) && first_of(s) &&
	       first_of(s) < segments.replayed && is_written(s) && !s->is_being_emptied &&
	       !is_protected(s, only_ends);
}

/*
 * Can the segments from S to the next keyframe be given up? After a gap, a replay can start only at
 * a keyframe, so a segment goes together with the following segments that have no keyframe.
 */
static int is_expendable_run(const struct segment *s, int only_ends)
{
	do {
		if (!is_expendable(s, only_ends))
			return 0;
		s = segments_at(first_of(s) + s->capacity);
	} while (s && !s->entry->has_keyframe);
	return s != NULL;
}

/* Keeps the keyframe memory of S for another segment. The caller holds the prepare lock. */
static void keep_spare(struct segment *s)
{
	for (unsigned i = 0; i < MT_MAX_SEGMENTS && s->keyframe; i++) {
		if (spare[i].records)
			continue;
		spare[i] = (struct spare){ s->keyframe, s->entry->keyframe_offset,
					   s->entry->keyframe_capacity };
		s->keyframe = NULL;
		s->entry->keyframe_capacity = s->entry->keyframe_offset = 0;
	}
}

/* Gives S the smallest spare that has room. The caller holds the prepare lock. */
static int take_spare(struct segment *s, uint64_t records)
{
	struct spare *best = NULL;

	for (unsigned i = 0; i < MT_MAX_SEGMENTS; i++)
		if (spare[i].records && spare[i].capacity >= records &&
		    (!best || spare[i].capacity < best->capacity))
			best = &spare[i];
	if (!best)
		return 0;
	s->keyframe = best->records;
	s->entry->keyframe_offset = best->offset;
	s->entry->keyframe_capacity = best->capacity;
	*best = (struct spare){ 0 };
	return 1;
}

/* Returns 1 if the budget has room for a keyframe of RECORDS, or if the budget is used up: then a
 * keyframe is needed before a segment can be given up. */
static int is_keyframe_due(uint64_t records)
{
	const uint64_t size = regions_bytes() + segments.bytes, budget = segments.header->budget;

	return size + records * sizeof(struct mt_record) <= budget ||
	       size + segments.keyframe_bytes > budget;
}

/* Returns memory for a keyframe of RECORDS before S, a spare or a new region. NULL: none. */
static struct mt_record *keyframe_room(struct segment *s, uint64_t records)
{
	uint64_t room = records + records / 16 + 1, offset;
	size_t bytes = (room * sizeof(struct mt_record) + 4095) & ~(size_t)4095;
	static struct mt_record nothing; /* a keyframe of no records needs no room */
	int found;

	if (!lock_acquire(&segments.prepare_lock, LOCK_MS(1000)))
		return NULL;
	s->keyframe_is_empty = 0;
	keep_spare(s);
	found = records && take_spare(s, records);
	lock_release(&segments.prepare_lock);
	if (found || !records)
		return found ? s->keyframe : &nothing;
	s->keyframe = regions_add(bytes, &offset);
	if (!s->keyframe)
		return NULL;
	s->entry->keyframe_offset = offset;
	s->entry->keyframe_capacity = bytes / sizeof(struct mt_record);
	if (bytes > segments.keyframe_bytes)
		segments.keyframe_bytes = bytes;
	return s->keyframe;
}

static void give_up_run(struct segment *s)
{
	struct segment *next;

	do {
		next = segments_at(first_of(s) + s->capacity);
		__atomic_store_n(&s->entry->first_sequence, MT_UNKNOWN, __ATOMIC_RELEASE);
		s->entry->has_keyframe = 0;
		keep_spare(s);
		segments.header->reused_records += s->capacity;
		if (s->is_empty <= 0)
			memset(s->records, 0, s->capacity * sizeof(struct mt_record));
		s->is_empty = 0;
		s->is_free = 1;
		__atomic_store_n(&s->entry->used, 0, __ATOMIC_RELEASE);
		s = next;
	} while (!s->entry->has_keyframe);
}

/* Returns a segment that was given up. NULL: none. */
static struct segment *take_free(void)
{
	for (unsigned i = 0; i < segments_count(); i++)
		if (segments.slot[i].is_free) {
			segments.slot[i].is_free = 0;
			return &segments.slot[i];
		}
	return NULL;
}

/* Returns the first segment of the oldest run that can be given up. NULL: none. */
static struct segment *find_oldest(int only_ends)
{
	struct segment *oldest = NULL;

	for (unsigned i = 0; i < segments_count(); i++) {
		struct segment *s = &segments.slot[i];

		if (first_of(s) != MT_UNKNOWN && (!oldest || first_of(s) < first_of(oldest)) &&
		    is_expendable_run(s, only_ends))
			oldest = s;
	}
	return oldest;
}

/* Gives up the oldest run that can go (never the first segment) and takes one segment of it. NULL:
 * none. */
static struct segment *reuse(void)
{
	struct segment *oldest = find_oldest(0);

	if (!oldest)
		oldest = find_oldest(1);
	if (!oldest)
		return NULL;
	give_up_run(oldest);
	return take_free();
}

int segments_are_unwritten(void)
{
	const struct segment *current = atomic_load(&segments.current);

	for (unsigned i = 0; i < segments_count(); i++) {
		const struct segment *s = &segments.slot[i];
		uint64_t first = first_of(s);
		if (s != current && first && first != MT_UNKNOWN && !is_written(s) &&
		    !is_protected(s, 1))
			return 1;
	}
	return 0;
}

/* Is there a full segment that the helper has not replayed, or that is not in the file? Then one
 * will be expendable soon. */
static int is_behind(void)
{
	const struct segment *current = atomic_load(&segments.current);

	return !current || segments.replayed < first_of(current) || segments_are_unwritten();
}

struct segment *segments_prepare(void)
{
	const struct mt_header *h = segments.header;
	struct segment *returned = take_free();
	uint64_t offset;
	void *p;

	if (returned)
		return returned;
	if (segments_count() >= MT_MAX_SEGMENTS ||
	    (regions_bytes() + segments.bytes + segments.keyframe_bytes > h->budget &&
	     segments_count() >= MIN_SEGMENTS)) {
		struct segment *old = reuse();
		errno = ENOBUFS;
		if (old || is_behind() || segments_count() >= MT_MAX_SEGMENTS)
			return old;
		/* all segments must be kept: use a few more than the budget has */
	}
	p = regions_add(segments.bytes, &offset);
	if (!p)
		return NULL;
	return add_segment(p, offset, segments.bytes);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define TOUCHED_AT_ONCE (256u << 10)

/* Has the kernel make the pages of S, even while records are written into it, so that recording
 * does not wait for each page. */
static void touch(struct segment *s)
{
	for (size_t at = 0; at < s->bytes; at += TOUCHED_AT_ONCE) {
		char *p = (char *)s->records + at;
		size_t n = s->bytes - at < TOUCHED_AT_ONCE ? s->bytes - at : TOUCHED_AT_ONCE;

		if (madvise(p, n, MADV_POPULATE_WRITE) == 0)
			continue;
		for (size_t k = 0; k < n; k += 4096)
			__atomic_fetch_add((uint64_t *)(void *)(p + k), 0, __ATOMIC_RELAXED);
	}
}

/* Marks and returns a segment whose memory can be given back. NULL: none. */
static struct segment *begin_to_empty(void)
{
	struct segment *found = NULL;

	if (!lock_acquire(&segments.prepare_lock, 0))
		return NULL;
	for (unsigned i = 0; i < segments_count() && !found; i++) {
		struct segment *s = &segments.slot[i];
		uint64_t first = first_of(s);

		if (first != MT_UNKNOWN && s != atomic_load(&segments.current) &&
		    first < segments.replayed && is_written(s) &&
		    (!s->is_empty || (s->keyframe && !s->keyframe_is_empty)))
			found = s;
	}
	if (found)
		found->is_being_emptied = 1;
	lock_release(&segments.prepare_lock);
	return found;
}

/* Gives back memory without the lock, which a thread that records may need. */
static void release(void)
{
	struct segment *s;

	while ((s = begin_to_empty())) {
		int emptied = madvise(s->records, s->bytes, MADV_REMOVE) == 0;

		if (s->keyframe)
			madvise(s->keyframe, s->entry->keyframe_capacity * sizeof(struct mt_record),
				MADV_REMOVE);
		s->is_empty = emptied ? 1 : -1; /* -1: not possible, and not tried again */
		s->keyframe_is_empty = 1;
		__atomic_store_n(&s->is_being_emptied, 0, __ATOMIC_RELEASE);
	}
}

void segments_prepare_next(void)
{
	struct segment *s = atomic_load(&segments.current), *next;

	release();
	if (!s || atomic_load(&segments.prepared) ||
	    __atomic_load_n(&s->entry->used, __ATOMIC_RELAXED) < s->wake_at)
		return;
	if (!lock_acquire(&segments.prepare_lock, 0))
		return;
	next = atomic_load(&segments.prepared) ? NULL : segments_prepare();
	if (next)
		atomic_store(&segments.prepared, next);
	lock_release(&segments.prepare_lock);
	if (next)
		touch(next);
}

int segments_next_filled(struct filled_segment *filled)
{
	struct segment *done = segments_at(segments.replayed), *following;

	following = done ? segments_at(segments.replayed + done->capacity) : NULL;
	if (!following)
		return 0;
	*filled = (struct filled_segment){ .records = done->records,
					   .count = done->capacity,
					   .following = following->entry };
	return 1;
}

struct mt_record *segments_keyframe(const struct filled_segment *filled, uint64_t records,
				    int *wanted)
{
	struct segment *s = &segments.slot[filled->following - segments.header->segment];

	*wanted = segments.since_keyframe + filled->count >= records && is_keyframe_due(records);
	return *wanted ? keyframe_room(s, records) : NULL;
}

void segments_replayed(const struct filled_segment *filled)
{
	segments.since_keyframe =
		filled->following->has_keyframe ? 0 : segments.since_keyframe + filled->count;
	segments.replayed += filled->count;
}
