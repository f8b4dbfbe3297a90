/* A job with modules of several owners, on a device of 10000 MiB, for tests of owners. */
#ifndef MEMTRACE_TEST_WRITE_JOB_H
#define MEMTRACE_TEST_WRITE_JOB_H

#include "replay/accounting.h"
#include "report/report.h"

#include "util/buf.h"
#include "write_trace.h"

#define MIB (INT64_C(1) << 20)
#define NONE 0 /* no stack */

struct job {
	struct writer w;
	uint16_t python;
	uint32_t pytorch, libtorch, nccl, cublas, program; /* stacks */
	unsigned char *file;
	struct trace trace;
	struct replay replay;
	struct report report;
	struct buf out;
};

int job_setup(void **state);
int job_teardown(void **state);

/* After the last event: its first device, or its report. */
const struct device *job_replay(struct job *j);
const struct rank *job_report(struct job *j);

void job_event(struct job *j, int kind, uint64_t address, bytes n, uint32_t stack);
/* A sample: the bytes in use on the device. */
void job_sample(struct job *j, bytes used);

/* The MiB of an owner at the end, and at the device's peak. The test fails unless all owners add
 * up. */
bytes held(const struct device *d, enum owner o);
bytes at_peak(const struct device *d, enum owner o);

#endif
