/* A trace whose events a test writes one by one, its replay and its report. */
#ifndef MEMTRACE_TEST_FIXTURE_H
#define MEMTRACE_TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "replay/accounting.h"
#include "replay/replay.h"
#include "report/report_build.h"
#include "trace/trace.h"
#include "util/buf.h"
#include "write_trace.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define NONE 0 /* no stack */

struct fixture {
	struct writer w;
	uint16_t python, autograd; /* threads */
	/* Stacks by the module that allocates: PyTorch, NCCL and the others without a Python frame.
	 */
	uint32_t c10, pytorch, libtorch, nccl, cublas, program;
	/* Stacks with Python frames, by what they do; a test has those of its setup. */
	uint32_t model, optimizer, attention, loss, evaluation, input, setup, temporary, zero_grad,
		recompute, save, clip, buckets, small;
	uint64_t address;    /* of the last block */
	char directory[64];  /* of the test's own; "": none */
	const char *phase;   /* replay_options.phase */
	int name_all_blocks; /* replay_options.name_all_blocks */
	unsigned char *file;
	struct trace trace;
	struct replay replay;
	struct report report;
	struct buf out;
};

/* A process with a thread of Python and one of autograd, and nothing else. */
int fixture_setup(void **state);
/* The same with a directory of its own. */
int fixture_setup_directory(void **state);
int fixture_teardown(void **state);

/* After the last event, once: its first device, or the only rank of its report. */
const struct device *fixture_replay(struct fixture *f, int keep_live);
const struct rank *fixture_report(struct fixture *f);

/* A stack without Python frames, of a module of that path. */
uint32_t fixture_stack(struct fixture *f, const char *module);
/* An event of the thread of Python. */
void fixture_event(struct fixture *f, int kind, uint64_t address, bytes n, uint32_t stack);

#endif
