/* A rank's trace in a directory of its own, and the report of it. */
#ifndef MEMTRACE_TEST_REPORT_JOB_H
#define MEMTRACE_TEST_REPORT_JOB_H

#include "fixture.h"

static inline int setup(void **state)
{
	struct fixture *f;
	uint32_t c10, inner;

	if (fixture_setup_directory(state) < 0)
		return -1;
	f = *state;
	gethostname(f->w.header.host, sizeof(f->w.header.host) - 1);
	write_meta(&f->w, "argv", "python\0train.py\0--name\0it's", 27);
	write_meta(&f->w, "gpu:0", "NVIDIA H100 80GB HBM3", 21);
	write_meta(&f->w, "version:torch", "2.15", 4);
	c10 = write_module(&f->w, "/site-packages/torch/lib/libc10_cuda.so");
	inner = write_frame(&f->w, "softmax", "/x/site-packages/torch/nn/functional.py", 2140);
	f->pytorch = write_stack(&f->w, c10, 0, 0, 0, 0);
	f->attention =
		write_stack(&f->w, c10, inner,
			    write_frame(&f->w, "CausalSelfAttention.forward", "/job/model.py", 52),
			    write_frame(&f->w, "<module>", "/job/train.py", 9), 0);
	f->loss = write_stack(&f->w, c10, write_frame(&f->w, "l\033oss\xff", "/job/train.py", 12),
			      0, 0, 0);
	return 0;
}

/* A job on a device of 16 GiB that dies of 288 MiB: 14 GiB of tensors, 1 GiB cached, 0.5 outside,
 * 0.5 free. */
static inline void write_death(struct fixture *f)
{
	f->w.header.rank = 1;
	f->w.header.world_size = 2;
	f->w.header.exit_status = 1;
	write_event(&f->w, MT_DEVICE_SAMPLE, 15 * GIB + 512 * MIB, 16 * GIB, 0, f->python);
	write_event(&f->w, MT_DEVICE_ALLOC, 64 * GIB, 15 * GIB, f->pytorch, f->python);
	write_event(&f->w, MT_RESERVED, 0, 15 * GIB, 0, f->python);
	for (int i = 0; i < 7; i++)
		write_event(&f->w, MT_TENSOR_ALLOC, (uint64_t)(64 + i) * GIB, GIB, f->attention,
			    f->python);
	write_event(&f->w, MT_TENSOR_ALLOC, 71 * GIB, 4 * GIB, f->loss, f->python);
	write_event(&f->w, MT_TENSOR_ALLOC, 75 * GIB, 2 * GIB, f->pytorch, f->autograd);
	write_event(&f->w, MT_TENSOR_ALLOC, 77 * GIB, GIB, f->pytorch, f->autograd);
	write_event(&f->w, MT_TENSOR_OOM, 512 * MIB, 288 * MIB, f->attention, f->python);
}

static inline char *save(struct fixture *f, const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s.mtr", f->directory, name);
	assert_int_equal(write_save(&f->w, path), 0);
	return path;
}

static inline void add(struct fixture *f, const char *path, int keep_live)
{
	const struct replay_options options = { .keep_live = keep_live };
	struct err e = { 0 };
	struct trace t;

	assert_int_equal(trace_open_header(&t, path, &e), 0);
	assert_int_equal(trace_load(&t, &e), 0);
	report_add(&f->report, &t, NULL, &options);
	trace_release(&t);
	report_sort(&f->report);
}

static inline void assert_says(const struct fixture *f, const char *text)
{
	if (!strstr(f->out.text, text))
		fail_msg("\"%s\" is not in:\n%s", text, f->out.text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

#endif
