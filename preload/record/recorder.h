/*
 * The recorder: records of fixed size in memory. Any thread of the job adds records, the helper
 * thread prepares memory ahead of them, and writer.h writes the trace file. The recorder does not
 * know CUDA, PyTorch or Python, and runs without the preload.
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
	uint64_t budget;   /* largest size of the file in bytes */
	int counters_only; /* no events: header, tables and counters */
	int with_process;  /* a separate process writes the file, if one can be started */
};

/* Makes the memory of a recording. The caller fills in the header's identity fields, then calls
 * recorder_begin(). Returns 0 or -errno. */
int recorder_open(const struct recorder_setup *setup);

/* Begins to record and to write. */
void recorder_begin(void);

/* Returns 1 if a process was started to write the file. */
int recorder_has_process(void);

/* The header in memory, NULL before recorder_open(). */
struct mt_header *recorder_header(void);

/* The state shared with the writer, NULL before recorder_open(). */
struct writer_control *recorder_control(void);

/* The last 8 bytes of a record as one number, so that one store writes them. */
static inline uint64_t recorder_last(uint32_t stack, uint16_t thread, enum mt_event kind,
				     unsigned device)
{
	return stack | (uint64_t)thread << 32 | (uint64_t)kind << 48 | (uint64_t)device << 56;
}

/*
 * Appends a record. LAST is its recorder_last(); the store of LAST makes the record visible.
 * Returns the sequence number, or MT_UNKNOWN if the record was lost or events are not recorded. The
 * call waits only if the helper thread was too slow to prepare the next segment; the header counts
 * that.
 */
uint64_t recorder_write(uint64_t time, uint64_t address, int64_t bytes, uint64_t last);

/* The sequence number that the next record gets; MT_UNKNOWN when events are not recorded. */
uint64_t recorder_next_sequence(void);

/* Ends the recording of events early; the counters continue. */
void recorder_stop(enum mt_lost reason, int e);

/* Ends recording for good: seals the current segment and marks the end. writer_finish() waits until
 * all is written. */
void recorder_close(int exit_status);

/* In a forked child: forgets the parent's recording without touching it. */
void recorder_forget(void);

/* Gives the memory back after the file could not be created. Threads may still write into the
 * memory; nothing reads it. */
void recorder_discard(void);

/* A sequence number that must stay in the file (an OOM); the first and the latest are kept. */
void recorder_protect(uint64_t sequence);

#endif
