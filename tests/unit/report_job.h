/* A rank's trace in a directory of its own, and the report of it. */
#ifndef MEMTRACE_TEST_REPORT_JOB_H
#define MEMTRACE_TEST_REPORT_JOB_H

#include "util/buf.h"
#include "replay/replay.h"
#include "report/report_build.h"
#include "trace/trace.h"
#include "write_trace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t pytorch, attention, loss;
	char directory[64];
	struct report report;
	struct buf out;
};

static inline int setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));
	uint32_t c10, inner;

	if (!j)
		return -1;
	strcpy(j->directory, "/tmp/memtrace-test-XXXXXX");
	if (!mkdtemp(j->directory))
		return -1;
	write_start(&j->w);
	gethostname(j->w.header.host, sizeof(j->w.header.host) - 1);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	write_meta(&j->w, "argv", "python\0train.py\0--name\0it's", 27);
	write_meta(&j->w, "gpu:0", "NVIDIA H100 80GB HBM3", 21);
	write_meta(&j->w, "version:torch", "2.15", 4);
	c10 = write_module(&j->w, "/site-packages/torch/lib/libc10_cuda.so");
	inner = write_frame(&j->w, "softmax", "/x/site-packages/torch/nn/functional.py", 2140);
	j->pytorch = write_stack(&j->w, c10, 0, 0, 0, 0);
	j->attention =
		write_stack(&j->w, c10, inner,
			    write_frame(&j->w, "CausalSelfAttention.forward", "/job/model.py", 52),
			    write_frame(&j->w, "<module>", "/job/train.py", 9), 0);
	j->loss = write_stack(&j->w, c10, write_frame(&j->w, "l\033oss\xff", "/job/train.py", 12),
			      0, 0, 0);
	*state = j;
	return 0;
}

static inline int teardown(void **state)
{
	struct job *j = *state;
	char command[128];

	report_release(&j->report);
	buf_release(&j->out);
	write_release(&j->w);
	snprintf(command, sizeof(command), "rm -rf %s", j->directory);
	free(j);
	return system(command) ? -1 : 0;
}

/* A job on a device of 16 GiB that dies of 288 MiB: 14 GiB of tensors, 1 GiB cached, 0.5 outside,
 * 0.5 free. */
static inline void write_death(struct job *j)
{
	j->w.header.rank = 1;
	j->w.header.world_size = 2;
	j->w.header.exit_status = 1;
	write_event(&j->w, MT_DEVICE_SAMPLE, 15 * GIB + 512 * MIB, 16 * GIB, 0, j->python);
	write_event(&j->w, MT_DEVICE_ALLOC, 64 * GIB, 15 * GIB, j->pytorch, j->python);
	write_event(&j->w, MT_RESERVED, 0, 15 * GIB, 0, j->python);
	for (int i = 0; i < 7; i++)
		write_event(&j->w, MT_TENSOR_ALLOC, (uint64_t)(64 + i) * GIB, GIB, j->attention,
			    j->python);
	write_event(&j->w, MT_TENSOR_ALLOC, 71 * GIB, 4 * GIB, j->loss, j->python);
	write_event(&j->w, MT_TENSOR_ALLOC, 75 * GIB, 2 * GIB, j->pytorch, j->autograd);
	write_event(&j->w, MT_TENSOR_ALLOC, 77 * GIB, GIB, j->pytorch, j->autograd);
	write_event(&j->w, MT_TENSOR_OOM, 512 * MIB, 288 * MIB, j->attention, j->python);
}

static inline char *save(struct job *j, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s.mtr", j->directory, name);
	assert_int_equal(write_save(&j->w, path), 0);
	return path;
}

static inline void add(struct job *j, const char *path, int keep_live)
{
	const struct replay_options options = { .keep_live = keep_live };
	struct err e = { 0 };
	struct trace t;

	assert_int_equal(trace_open_header(&t, path, &e), 0);
	assert_int_equal(trace_load(&t, &e), 0);
	report_add(&j->report, &t, NULL, &options);
	trace_release(&t);
	report_sort(&j->report);
}

static inline void assert_says(const struct job *j, const char *text)
{
	if (!strstr(j->out.text, text))
		fail_msg("\"%s\" is not in:\n%s", text, j->out.text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
