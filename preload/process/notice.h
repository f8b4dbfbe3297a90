/* All output of the preload: single lines on stderr, from one process of a job. MEMTRACE_QUIET=1
 * suppresses them. */
#ifndef PRELOAD_NOTICE_H
#define PRELOAD_NOTICE_H

#include <stdint.h>

#include "process/identity.h"

/* Sets the process's identity, the directory of the traces (both borrowed), and whether the device
 * is simulated. */
void notice_begin(const struct identity *who, const char *directory, int simulated);

/* A MEMTRACE_ variable that is unknown (EXPECTED NULL) or has a bad value. */
void notice_setting(const char *name, const char *expected);

/* Recording could not start (HOW "not recording") or ended early (HOW "recording ended"), with
 * errno value E. */
void notice_lost(const char *how, const char *why, int e);

void notice_out_of_memory(uint64_t requested, uint64_t free_bytes);

/* Of processes of one run that have no rank, returns 1 in one: that one calls notice_end(). To be
 * called while the recording is on, for the writer decides. */
int notice_is_first_to_end(void);

/* The peaks of one device; without PyTorch's allocator, the device's alone. */
void notice_end(uint64_t allocated_peak, uint64_t reserved_peak, uint64_t device_peak,
		uint64_t lost_events);

/* The simulated device comes before this library in LD_PRELOAD: its functions are called instead.
 */
void notice_order(void);

#endif
