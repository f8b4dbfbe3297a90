/* A trace whose events a test writes one by one, and its replay. */
#ifndef MEMTRACE_TEST_REPLAY_JOB_H
#define MEMTRACE_TEST_REPLAY_JOB_H

#include "replayed.h"

#define MIB (INT64_C(1) << 20)
#define NONE 0

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t pytorch, nccl, model, optimizer; /* stacks */
	unsigned char *file;
	struct trace trace;
	struct replay replay;
};

static inline int setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));
	uint32_t c10, other;

	if (!j)
		return -1;
	write_start(&j->w);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	c10 = write_module(&j->w, "/site-packages/torch/lib/libc10_cuda.so");
	other = write_module(&j->w, "/lib/libnccl.so.2");
	j->pytorch = write_stack(&j->w, c10, 0, 0, 0, 0);
	j->nccl = write_stack(&j->w, other, 0, 0, 0, 0);
	j->model = write_stack(&j->w, c10, write_frame(&j->w, "forward", "/job/model.py", 52), 0, 0,
			       0);
	j->optimizer = write_stack(
		&j->w, c10,
		write_frame(&j->w, "_init_group", "/p/site-packages/torch/optim/adamw.py", 9),
		write_frame(&j->w, "train", "/job/train.py", 3), 0, 0);
	*state = j;
	return 0;
}

static inline int teardown(void **state)
{
	struct job *j = *state;

	release_written(&j->w, j->file, &j->trace, &j->replay);
	free(j);
	return 0;
}

static inline void run(struct job *j)
{
	const struct replay_options options = { .keep_live = 1 };

	replay_written(&j->w, &j->file, &j->trace, &j->replay, &options);
}

static inline void forward(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_ALLOC, address, n, j->model, j->python);
}

static inline void backward(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_ALLOC, address, n, j->pytorch, j->autograd);
}

static inline void optimizer(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_ALLOC, address, n, j->optimizer, j->python);
}

static inline void release(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_FREE, address, -n, NONE, j->python);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
