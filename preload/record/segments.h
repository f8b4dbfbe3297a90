/*
 * The runs of records of a recording: which one is written to, which is ready, which may be given
 * up to keep to the budget. The recorder's own; nothing else includes this.
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
	uint64_t wake_at; /* record at which the helper should prepare the next segment */
	struct mt_segment *entry;
	size_t bytes;
	struct mt_record *keyframe; /* NULL: none yet */
	int is_free;                /* was given up, and nobody has taken it since */
	int is_being_emptied;       /* segments_release() gives its memory back just now */
	int is_empty;               /* its memory was given back and reads as zeros */
	int keyframe_is_empty;
};

extern struct segments {
	struct writer_control *control;
	struct mt_header *header;
	struct lock prepare_lock;
	_Atomic(struct segment *) current; /* NULL: events are not recorded */
	_Atomic(struct segment *) prepared;
	struct segment slot[MT_MAX_SEGMENTS];
	size_t bytes;            /* of each segment but the first */
	uint64_t keyframe_bytes; /* of the largest so far */
	_Atomic uint64_t
		replayed; /* every segment that begins before this sequence number was replayed */
	uint64_t since_keyframe; /* records replayed since the last keyframe */
} segments;

/* Begins with one segment of BYTES of memory. */
void segments_open(struct writer_control *control, uint64_t budget, void *records, uint64_t offset,
		   size_t bytes);

/* How many bytes the first segment of such a budget has. */
size_t segments_first_bytes(uint64_t budget);

/* A segment ready for use: new while the budget lasts, else an old one again. NULL with errno
 * ENOBUFS: none now, but later; another errno: none any more. The prepare lock is held. */
struct segment *segments_prepare(void);

/* The segment whose first sequence number is FIRST; NULL: none. */
struct segment *segments_at(uint64_t first);

/* Are there full segments that are not in the file? */
int segments_are_unwritten(void);

/* The next full segment, in order of sequence, that segments_replayed() has not been told of. */
struct filled_segment {
	const struct mt_record *records;
	uint64_t count;
	struct mt_segment *following; /* its keyframe is complete once `records` are replayed */
};
int segments_next_filled(struct filled_segment *filled); /* 0: none */

/*
 * Room for a keyframe of RECORDS before the segment that follows FILLED: what that segment had if
 * it is large enough, else new. NULL with *wanted 0: none is due yet, for keyframes take no more
 * room than the records between them, and leave the budget to the records until it is used up. NULL
 * with *wanted 1: there is no space.
 */
struct mt_record *segments_keyframe(const struct filled_segment *filled, uint64_t records,
				    int *wanted);
void segments_replayed(const struct filled_segment *filled);

/* A record that must stay in the trace (an OOM). */
void segments_protect(uint64_t sequence);

/* For the helper thread: gives the memory back of records that are replayed and in the file, and
 * prepares the segment after the current one if that is half full. */
void segments_prepare_next(void);

#endif
