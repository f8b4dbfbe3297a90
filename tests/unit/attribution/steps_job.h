/* A job of training steps, with the stacks that its blocks come from. */
#ifndef MEMTRACE_TEST_STEPS_JOB_H
#define MEMTRACE_TEST_STEPS_JOB_H

#include "fixture.h"

#define TORCH "/p/site-packages/torch/"

static inline uint32_t stack(struct fixture *f, uint32_t inner, uint32_t middle, uint32_t outer)
{
	return write_stack(&f->w, f->c10, inner, middle, outer, 0);
}

static inline void write_stacks(struct fixture *f)
{
	struct writer *w = &f->w;
	uint32_t main = write_frame(w, "main", "/job/train.py", 10),
		 evaluate = write_frame(w, "main", "/job/train.py", 20),
		 call = write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(w, "Net.forward", "/job/net.py", 2),
		 step = write_frame(w, "AdamW.step", TORCH "optim/adamw.py", 3);

	f->model = stack(f, forward, call, main);
	f->evaluation = stack(f, forward, call, evaluate);
	f->input = stack(f, main, 0, 0);
	f->setup = stack(f, write_frame(w, "Module._apply", TORCH "nn/modules/module.py", 900),
			 main, 0);
	f->optimizer = stack(f, write_frame(w, "AdamW._init_group", TORCH "optim/adamw.py", 4),
			     step, main);
	f->temporary = stack(f, write_frame(w, "_multi_tensor_adamw", TORCH "optim/adamw.py", 5),
			     step, main);
	f->zero_grad = stack(
		f, write_frame(w, "Optimizer.zero_grad", TORCH "optim/optimizer.py", 6), main, 0);
	f->recompute = stack(
		f, forward,
		write_frame(w, "CheckpointFunction.backward", TORCH "utils/checkpoint.py", 7), 0);
	f->save = stack(f, write_frame(w, "save", TORCH "serialization.py", 8), main, 0);
	f->clip = stack(f, write_frame(w, "clip_grad_norm_", TORCH "nn/utils/clip_grad.py", 9),
			main, 0);
	f->buckets = stack(f,
			   write_frame(w, "DistributedDataParallel._ddp_init_helper",
				       TORCH "nn/parallel/distributed.py", 11),
			   main, 0);
	f->small = stack(f, 0, 0, 0);
}

static inline int start(void **state)
{
	struct fixture *f;

	if (fixture_setup(state) < 0)
		return -1;
	f = *state;
	f->c10 = write_module(&f->w, TORCH "lib/libc10_cuda.so");
	f->address = 0x1000000;
	write_stacks(f);
	return 0;
}

static inline const struct device *run(struct fixture *f)
{
	return fixture_replay(f, 0);
}

/* Allocates a block and returns its address. */
static inline uint64_t make(struct fixture *f, uint32_t where, bytes n)
{
	f->address += 0x1000000;
	write_event(&f->w, MT_TENSOR_ALLOC, f->address, n, where, f->python);
	return f->address;
}

static inline uint64_t make_in_backward(struct fixture *f, uint32_t where, bytes n)
{
	f->address += 0x1000000;
	write_event(&f->w, MT_TENSOR_ALLOC, f->address, n, where, f->autograd);
	return f->address;
}

static inline void drop(struct fixture *f, uint32_t where, uint64_t address, bytes n)
{
	write_event(&f->w, MT_TENSOR_FREE, address, -n, where, f->python);
}

static inline void drop_in_backward(struct fixture *f, uint64_t address, bytes n)
{
	write_event(&f->w, MT_TENSOR_FREE, address, -n, f->small, f->autograd);
}

/* "1setup 1forward 1backward ...": the step and phase of each span that differs from the one
 * before. */
static inline void assert_phases(const struct device *d, const char *expected)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < d->spans.count; i++) {
		const struct span *s = &d->spans.list[i], *last = i ? s - 1 : NULL;

		if (!last || last->step != s->step || last->phase != s->phase)
			buf_addf(&b, "%s%u%s", i ? " " : "", s->step,
				 phase_name((enum phase)s->phase));
	}
	assert_string_equal(b.text ? b.text : "", expected);
	buf_release(&b);
}

static inline bytes of(const struct device *d, enum category c)
{
	return d->at_peak.by_category[c] / MIB;
}

/* One micro-batch: 10 MiB of activations, allocated and freed; the gradient stays. */
static inline uint64_t micro_batch(struct fixture *f)
{
	uint64_t a = make(f, f->model, 10 * MIB), g;

	g = make_in_backward(f, f->small, 5 * MIB);
	drop_in_backward(f, a, 10 * MIB);
	return g;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, fixture_teardown)

#endif
