/* A training job with the stacks of its model and its optimizer, and its replay. */
#ifndef MEMTRACE_TEST_REPLAY_JOB_H
#define MEMTRACE_TEST_REPLAY_JOB_H

#include "fixture.h"

static inline int setup(void **state)
{
	struct fixture *f;

	if (fixture_setup(state) < 0)
		return -1;
	f = *state;
	f->c10 = write_module(&f->w, "/site-packages/torch/lib/libc10_cuda.so");
	f->nccl = fixture_stack(f, "/lib/libnccl.so.2");
	f->pytorch = write_stack(&f->w, f->c10, 0, 0, 0, 0);
	f->model = write_stack(&f->w, f->c10, write_frame(&f->w, "forward", "/job/model.py", 52), 0,
			       0, 0);
	f->optimizer = write_stack(
		&f->w, f->c10,
		write_frame(&f->w, "_init_group", "/p/site-packages/torch/optim/adamw.py", 9),
		write_frame(&f->w, "train", "/job/train.py", 3), 0, 0);
	return 0;
}

static inline void run(struct fixture *f)
{
	fixture_replay(f, 1);
}

static inline void forward(struct fixture *f, uint64_t address, bytes n)
{
	write_event(&f->w, MT_TENSOR_ALLOC, address, n, f->model, f->python);
}

static inline void backward(struct fixture *f, uint64_t address, bytes n)
{
	write_event(&f->w, MT_TENSOR_ALLOC, address, n, f->pytorch, f->autograd);
}

static inline void optimizer(struct fixture *f, uint64_t address, bytes n)
{
	write_event(&f->w, MT_TENSOR_ALLOC, address, n, f->optimizer, f->python);
}

static inline void release(struct fixture *f, uint64_t address, bytes n)
{
	write_event(&f->w, MT_TENSOR_FREE, address, -n, NONE, f->python);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

#endif
