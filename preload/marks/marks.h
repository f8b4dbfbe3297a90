/* The job's own marks: steps, phases and named moments, as events of the layer MARK. These
 * functions are exported for the Python module `memtrace` (preload/module) and for programs that
 * look them up. None of them starts a recording: a phase that is open when the recording begins
 * is written then. */
#ifndef PRELOAD_MARKS_H
#define PRELOAD_MARKS_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of a longer name that are kept. The Python module has the same number. */
#define MARK_NAME_BYTES 119

/* Begins a phase and returns its number, which ends it; 0 if too many are open. Phases may overlap,
 * and end on another thread. */
uint64_t memtrace_phase_begin(const char *name);
void memtrace_phase_end(uint64_t phase);

/* A step begins. */
void memtrace_step(void);

/* A named moment. */
void memtrace_mark(const char *name);

/* The counters of a device, in the order of `struct mt_device`: bytes that are allocated, their
 * peak, reserved bytes, their peak, and the device's peak. Returns -1 if nothing is recorded. */
int memtrace_levels(unsigned device, uint64_t levels[5]);

/* Waits until the file has all that was recorded before the call, LIMIT_MS at most. Returns -1 if
 * it does not have it. */
int memtrace_flush(unsigned limit_ms);

/* Copies the path of the trace. Returns -1 if there is none, or no room for it. */
int memtrace_trace(char *path, size_t bytes);

/* A recording has begun in this process: records the phases that are open. */
void marks_begin(void);

#endif
