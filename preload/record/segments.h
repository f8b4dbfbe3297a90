/*
 * The segments of a recording, each a run of records: the current one, the prepared next one, and
 * those that may be given up to stay within the budget.
 */
#ifndef PRELOAD_SEGMENTS_H
#define PRELOAD_SEGMENTS_H

#include <memtrace/trace.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/lock.h"
#include "record/control.h"

/* A segment in this process's memory. */
struct segment {
	struct mt_record *records;
	uint64_t capacity;
	uint64_t
		wake_at; /* number of records at which the helper should prepare the next segment */
	struct mt_segment *entry;
	size_t bytes;
	struct mt_record *keyframe; /* NULL: none yet */
	int is_free;                /* was given up and is not in use */
	int is_being_emptied;       /* its memory is being given back */
	int is_empty; /* 1: its memory was given back and reads as zeros; -1: not possible */
	int keyframe_is_empty;
};

extern struct segments {
	struct writer_control *control;
	struct mt_header *header;
	struct lock prepare_lock;
	_Atomic(struct segment *) current; /* NULL: events are not recorded */
	_Atomic(struct segment *) prepared;
	struct segment slot[MT_MAX_SEGMENTS];
	size_t bytes;            /* size of each segment but the first */
	uint64_t keyframe_bytes; /* size of the largest keyframe so far */
	_Atomic uint64_t
		replayed; /* every segment that begins before this sequence number was replayed */
	uint64_t since_keyframe; /* records replayed since the last keyframe */
} segments;

/* Begins with one segment of BYTES at RECORDS, at OFFSET of the file. BYTES 0: no segment. */
void segments_open(struct writer_control *control, uint64_t budget, void *records, uint64_t offset,
		   size_t bytes);

/* Bytes of the first segment for this budget. */
size_t segments_first_bytes(uint64_t budget);

/* Returns a segment ready for use: a new one while the budget has room, else an old one. NULL with
 * errno ENOBUFS: there is none now; with another errno: there will be none. The caller holds the
 * prepare lock. */
struct segment *segments_prepare(void);

/* Number of segments so far. Any thread may ask. */
uint64_t segments_count(void);

/* The segment whose first sequence number is FIRST; NULL: none. */
struct segment *segments_at(uint64_t first);

/* Returns 1 if a full segment is not in the file yet. */
int segments_are_unwritten(void);

/* The oldest full segment that is not replayed yet. */
struct filled_segment {
	const struct mt_record *records;
	uint64_t count;
	struct mt_segment *following; /* its keyframe is complete once `records` are replayed */
};
int segments_next_filled(struct filled_segment *filled); /* 0: there is none */

/*
 * Returns room for a keyframe of RECORDS before the segment that follows FILLED. NULL with *wanted
 * 0: no keyframe is due yet. Keyframes take no more room than the records between them, and none is
 * due before the records have used up the budget. NULL with *wanted 1: there is no space.
 */
struct mt_record *segments_keyframe(const struct filled_segment *filled, uint64_t records,
				    int *wanted);

/* Marks FILLED as replayed. */
void segments_replayed(const struct filled_segment *filled);

/* The record with this sequence number (a failure for lack of memory) must stay in the trace. */
void segments_protect(uint64_t sequence);

/* For the helper thread: gives back the memory of records that are replayed and in the file. If the
 * current segment is half full, prepares the next one. */
void segments_prepare_next(void);

#endif
