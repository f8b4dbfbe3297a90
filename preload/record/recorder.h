/*
 * The recorder: one recording of fixed records in memory, written by any thread, prepared ahead by
 * a helper thread, written to the trace file by writer.h. Knows no CUDA, no PyTorch, no Python;
 * links and runs without the preload.
 */
#ifndef PRELOAD_RECORDER_H
#define PRELOAD_RECORDER_H

#include <memtrace/trace.h>
#include <stdatomic.h>
#include <stddef.h>

#include "record/control.h"

struct recorder_setup {
	const char *directory; /* absolute */
	const char *name;
	uint64_t budget;   /* bytes of file */
	int counters_only; /* no events: header, tables and counters */
	int with_process;  /* a process of its own writes the file, where one can be made */
};

/* Makes the recording's memory. The header's identity fields are the caller's to fill; then
 * recorder_begin(). 0 or -errno. */
int recorder_open(const struct recorder_setup *setup);

/* Recording and writing begin. */
void recorder_begin(void);

/* Was a process started that writes the file? */
int recorder_has_process(void);

/* The header in memory, NULL before recorder_open(). */
struct mt_header *recorder_header(void);

/* What the writer is told and tells, NULL before recorder_open(). */
struct writer_control *recorder_control(void);

/* The last 8 bytes of a record, as one number: stores of its parts would have to end before it
 * could be read back. */
static inline uint64_t recorder_last(uint32_t stack, uint16_t thread, enum mt_event kind,
				     unsigned device)
{
	return stack | (uint64_t)thread << 32 | (uint64_t)kind << 48 | (uint64_t)device << 56;
}

/*
 * Appends a record, whose last 8 bytes are recorder_last(): they make it visible. Returns its
 * sequence number, or MT_UNKNOWN when it was lost or events are not recorded. Waits for nothing but
 * the next segment, where the helper was too slow; the header counts that.
 */
uint64_t recorder_write(uint64_t time, uint64_t address, int64_t bytes, uint64_t last);

/* The sequence number that the next record gets; MT_UNKNOWN when events are not recorded. */
uint64_t recorder_next_sequence(void);

/* Ends the recording of events early: the counters go on. */
void recorder_stop(enum mt_lost reason, int e);

/* Ends recording for good: seals the current segment and marks the end. writer_finish() has it
 * written. */
void recorder_close(int exit_status);

/* In a forked child: forget the parent's recording without touching it. */
void recorder_forget(void);

/* The file could not be made: gives the memory back. Threads may still write into it, to no end. */
void recorder_discard(void);

/* A sequence number that must stay in the file (an OOM); the first and the latest are kept. */
void recorder_protect(uint64_t sequence);

#endif
