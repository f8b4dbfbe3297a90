/*
 * The recorder: one trace file of fixed records, written by any thread, prepared ahead by a helper
 * thread. Knows no CUDA, no PyTorch, no Python; links and runs without the preload.
 */
#ifndef PRELOAD_RECORDER_H
#define PRELOAD_RECORDER_H

#include <memtrace/trace.h>
#include <stdatomic.h>
#include <stddef.h>

struct recorder_setup {
	const char *directory;
	const char *name;
	uint64_t budget;   /* bytes of file */
	int counters_only; /* no events: header, tables and counters */
};

/* Opens the file and starts recording. The header's identity fields are the caller's to fill,
 * before and after. 0 or -errno. */
int recorder_open(const struct recorder_setup *setup);

/* The mapped header, NULL before recorder_open(). */
struct mt_header *recorder_header(void);

/*
 * Appends R (its `kind` is what makes it visible) and returns its sequence number, or MT_UNKNOWN
 * when it was lost or events are not recorded. Waits for nothing but the next segment, where the
 * helper was too slow; the header counts that.
 */
uint64_t recorder_write(const struct mt_record *r);

/* Adds a mapped region to the file; NULL when there is no space. Any thread. */
void *recorder_grow(size_t bytes, uint64_t *offset);

/* Counts a place that could not be kept, an event that could not be recorded: the first REASON stays. */
void recorder_lose_place(void);
void recorder_lose_event(enum mt_lost reason);

/*
 * Ends recording for good: seals the current segment, marks the end and, when the helper thread is
 * gone, gives the unused tail of the file back.
 */
void recorder_close(int exit_status, int helper_gone);

/* In a forked child: forget the parent's trace without touching it. */
void recorder_forget(void);

/* ---- for the helper thread (background.c) ---- */

/* Prepares the segment after the current one if that is half used or more. */
void recorder_prepare(void);

/* The next full segment, in order of sequence, that recorder_keyframe() has not seen; NULL: none.
 */
struct recorder_full {
	const struct mt_record *records;
	uint64_t count;
	struct mt_segment *following; /* whose keyframe the replay of `records` completes */
};
int recorder_next_full(struct recorder_full *full);

/* Room for the keyframe of FULL's follower: what it had, where that is large enough, else new.
 * NULL: no space. */
struct mt_record *recorder_keyframe_space(const struct recorder_full *full, uint64_t records);
void recorder_full_done(const struct recorder_full *full);

/* A sequence number that must stay in the file (an OOM); the two latest are kept. */
void recorder_protect(uint64_t sequence);

#endif
