/* A job of steps whose events a test writes one by one, and the stacks of its blocks. */
#ifndef MEMTRACE_TEST_STEPS_JOB_H
#define MEMTRACE_TEST_STEPS_JOB_H

#include "util/buf.h"
#include "replayed.h"

#define TORCH "/p/site-packages/torch/"
#define MIB (INT64_C(1) << 20)

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t c10, model, evaluation, input, setup, optimizer, temporary, zero_grad, recompute,
		save, clip, buckets, small; /* stacks */
	uint64_t address;
	unsigned char *file;
	struct trace trace;
	struct replay replay;
};

static inline uint32_t stack(struct job *j, uint32_t inner, uint32_t middle, uint32_t outer)
{
	return write_stack(&j->w, j->c10, inner, middle, outer, 0);
}

static inline void write_stacks(struct job *j)
{
	struct writer *w = &j->w;
	uint32_t main = write_frame(w, "main", "/job/train.py", 10),
		 evaluate = write_frame(w, "main", "/job/train.py", 20),
		 call = write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(w, "Net.forward", "/job/net.py", 2),
		 step = write_frame(w, "AdamW.step", TORCH "optim/adamw.py", 3);

	j->model = stack(j, forward, call, main);
	j->evaluation = stack(j, forward, call, evaluate);
	j->input = stack(j, main, 0, 0);
	j->setup = stack(j, write_frame(w, "Module._apply", TORCH "nn/modules/module.py", 900),
			 main, 0);
	j->optimizer = stack(j, write_frame(w, "AdamW._init_group", TORCH "optim/adamw.py", 4),
			     step, main);
	j->temporary = stack(j, write_frame(w, "_multi_tensor_adamw", TORCH "optim/adamw.py", 5),
			     step, main);
	j->zero_grad = stack(
		j, write_frame(w, "Optimizer.zero_grad", TORCH "optim/optimizer.py", 6), main, 0);
	j->recompute = stack(
		j, forward,
		write_frame(w, "CheckpointFunction.backward", TORCH "utils/checkpoint.py", 7), 0);
	j->save = stack(j, write_frame(w, "save", TORCH "serialization.py", 8), main, 0);
	j->clip = stack(j, write_frame(w, "clip_grad_norm_", TORCH "nn/utils/clip_grad.py", 9),
			main, 0);
	j->buckets = stack(j,
			   write_frame(w, "DistributedDataParallel._ddp_init_helper",
				       TORCH "nn/parallel/distributed.py", 11),
			   main, 0);
	j->small = stack(j, 0, 0, 0);
}

static inline int start(void **state)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -1;
	write_start(&j->w);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	j->c10 = write_module(&j->w, TORCH "lib/libc10_cuda.so");
	j->address = 0x1000000;
	write_stacks(j);
	*state = j;
	return 0;
}

static inline int end(void **state)
{
	struct job *j = *state;

	release_written(&j->w, j->file, &j->trace, &j->replay);
	free(j);
	return 0;
}

static const struct device *run(struct job *j)
{
	const struct replay_options options = { 0 };

	replay_written(&j->w, &j->file, &j->trace, &j->replay, &options);
	return &j->replay.device[0];
}

/* Allocates a block and returns its address. */
static inline uint64_t make(struct job *j, uint32_t where, bytes n)
{
	j->address += 0x1000000;
	write_event(&j->w, MT_TENSOR_ALLOC, j->address, n, where, j->python);
	return j->address;
}

static inline uint64_t make_in_backward(struct job *j, uint32_t where, bytes n)
{
	j->address += 0x1000000;
	write_event(&j->w, MT_TENSOR_ALLOC, j->address, n, where, j->autograd);
	return j->address;
}

static inline void drop(struct job *j, uint32_t where, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_FREE, address, -n, where, j->python);
}

static inline void drop_in_backward(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_FREE, address, -n, j->small, j->autograd);
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
static inline uint64_t micro_batch(struct job *j)
{
	uint64_t a = make(j, j->model, 10 * MIB), g;

	g = make_in_backward(j, j->small, 5 * MIB);
	drop_in_backward(j, a, 10 * MIB);
	return g;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start, end)

#endif
