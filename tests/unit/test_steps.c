/* Steps, phases and categories, on jobs written out by hand. */
#include "replay.h"

#include "write_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TORCH "/p/site-packages/torch/"
#define MIB (INT64_C(1) << 20)

struct job {
	struct writer w;
	uint16_t python, autograd;
	uint32_t c10, model, evaluation, input, setup, optimizer, temporary, zero_grad, recompute, save,
		clip, buckets, small; /* places */
	uint64_t address;
	unsigned char *file;
	struct trace trace;
	struct replay replay;
};

static uint32_t place(struct job *j, uint32_t inner, uint32_t middle, uint32_t outer)
{
	return write_place(&j->w, j->c10, inner, middle, outer, 0);
}

static void write_places(struct job *j)
{
	struct writer *w = &j->w;
	uint32_t main = write_frame(w, "main", "/job/train.py", 10),
		 evaluate = write_frame(w, "main", "/job/train.py", 20),
		 call = write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(w, "Net.forward", "/job/net.py", 2),
		 step = write_frame(w, "AdamW.step", TORCH "optim/adamw.py", 3);

	j->model = place(j, forward, call, main);
	j->evaluation = place(j, forward, call, evaluate);
	j->input = place(j, main, 0, 0);
	j->setup = place(j,
			 write_frame(w, "Module._apply", TORCH "nn/modules/module.py", 900), main, 0);
	j->optimizer = place(j, write_frame(w, "AdamW._init_group", TORCH "optim/adamw.py", 4),
			     step, main);
	j->temporary = place(j, write_frame(w, "_multi_tensor_adamw", TORCH "optim/adamw.py", 5),
			     step, main);
	j->zero_grad = place(j, write_frame(w, "Optimizer.zero_grad", TORCH "optim/optimizer.py", 6),
			     main, 0);
	j->recompute = place(j, forward,
			     write_frame(w, "CheckpointFunction.backward",
					 TORCH "utils/checkpoint.py", 7),
			     0);
	j->save = place(j, write_frame(w, "save", TORCH "serialization.py", 8), main, 0);
	j->clip = place(j, write_frame(w, "clip_grad_norm_", TORCH "nn/utils/clip_grad.py", 9), main,
			0);
	j->buckets = place(j,
			   write_frame(w, "DistributedDataParallel._ddp_init_helper",
				       TORCH "nn/parallel/distributed.py", 11),
			   main, 0);
	j->small = place(j, 0, 0, 0);
}

static int start(void **state)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return -1;
	write_start(&j->w);
	j->python = write_thread(&j->w, 100, "python");
	j->autograd = write_thread(&j->w, 101, "pt_autograd_0");
	j->c10 = write_module(&j->w, TORCH "lib/libc10_cuda.so");
	j->address = 0x1000000;
	write_places(j);
	*state = j;
	return 0;
}

static int end(void **state)
{
	struct job *j = *state;

	replay_release(&j->replay);
	trace_release(&j->trace);
	write_release(&j->w);
	free(j->file);
	free(j);
	return 0;
}

static const struct device *run(struct job *j)
{
	const struct replay_options options = { 0 };
	struct err e = { 0 };
	size_t size;

	j->file = write_finish(&j->w, &size);
	assert_int_equal(trace_open_memory(&j->trace, j->file, size, &e), 0);
	replay_trace(&j->replay, &j->trace, &options);
	return &j->replay.device[0];
}

/* A new block; its address. */
static uint64_t make(struct job *j, uint32_t where, bytes n)
{
	j->address += 0x1000000;
	write_event(&j->w, MT_TENSOR_ALLOC, j->address, n, where, j->python);
	return j->address;
}

static uint64_t make_in_backward(struct job *j, uint32_t where, bytes n)
{
	j->address += 0x1000000;
	write_event(&j->w, MT_TENSOR_ALLOC, j->address, n, where, j->autograd);
	return j->address;
}

static void drop(struct job *j, uint32_t where, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_FREE, address, -n, where, j->python);
}

static void drop_in_backward(struct job *j, uint64_t address, bytes n)
{
	write_event(&j->w, MT_TENSOR_FREE, address, -n, j->small, j->autograd);
}

/* "1setup 1forward 1backward ...": each change. */
static void assert_phases(const struct device *d, const char *expected)
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

static bytes of(const struct device *d, enum category c)
{
	return d->at_peak.by_category[c] / MIB;
}

/* One micro-batch: 10 MiB of activations, made and used; the gradient stays. */
static uint64_t micro_batch(struct job *j)
{
	uint64_t a = make(j, j->model, 10 * MIB), g;

	g = make_in_backward(j, j->small, 5 * MIB);
	drop_in_backward(j, a, 10 * MIB);
	return g;
}

static void setting_up_is_no_step(void **state)
{
	struct job *j = *state;

	make(j, j->setup, MIB);
	make(j, j->input, MIB);
	micro_batch(j);
	make(j, j->optimizer, MIB);
	assert_phases(run(j), "1setup 1forward 1backward 1optimizer");
}

static void micro_batches_of_a_step_accumulate(void **state)
{
	struct job *j = *state;

	for (unsigned step = 0; step < 2; step++) {
		for (unsigned i = 0; i < 3; i++)
			micro_batch(j);
		drop(j, j->temporary, make(j, j->temporary, MIB), MIB);
	}
	assert_phases(run(j), "1forward 1backward 1forward 1backward 1forward 1backward 1optimizer "
			      "2forward 2backward 2forward 2backward 2forward 2backward 2optimizer");
}

/* 1F1B: two forwards in flight. */
static void a_pipeline_has_forwards_in_flight(void **state)
{
	struct job *j = *state;
	const struct device *d;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t a = make(j, j->model, 10 * MIB), b = make(j, j->model, 10 * MIB), c;

		drop_in_backward(j, a, 10 * MIB);
		c = make(j, j->model, 10 * MIB);
		drop_in_backward(j, b, 10 * MIB);
		drop_in_backward(j, c, 10 * MIB);
		make(j, j->optimizer, MIB);
	}
	d = run(j);
	assert_phases(d, "1forward 1backward 1forward 1backward 1optimizer "
			 "2forward 2backward 2forward 2backward 2optimizer");
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 20);
}

/* The optimizer made its states in step 1, and works in place from then on. */
static void an_optimizer_in_place_is_counted(void **state)
{
	struct job *j = *state;

	for (unsigned step = 0; step < 3; step++) {
		micro_batch(j);
		micro_batch(j);
		if (!step)
			make(j, j->optimizer, MIB);
	}
	assert_phases(run(j), "1forward 1backward 1forward 1backward 1optimizer "
			      "2forward 2backward 2forward 2backward "
			      "3forward 3backward 3forward 3backward");
}

static void zero_grad_ends_a_step_too(void **state)
{
	struct job *j = *state;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t first = micro_batch(j), second = micro_batch(j);

		drop(j, j->zero_grad, first, 5 * MIB);
		drop(j, j->zero_grad, second, 5 * MIB);
	}
	assert_phases(run(j), "1forward 1backward 1forward 1backward 1optimizer "
			      "2forward 2backward 2forward 2backward 2optimizer");
}

/* Its calls leave next to nothing, while those for training leave what backward needs. */
static void evaluation_leaves_nothing(void **state)
{
	struct job *j = *state;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t kept[20];

		make(j, j->input, MIB);
		for (unsigned i = 0; i < 20; i++)
			kept[i] = make(j, j->model, MIB);
		for (unsigned i = 0; i < 20; i++)
			drop_in_backward(j, kept[i], MIB);
		make(j, j->optimizer, MIB);
		for (unsigned i = 0; i < 20; i++)
			drop(j, j->evaluation, make(j, j->evaluation, MIB), MIB);
	}
	assert_phases(run(j), "1forward 1backward 1optimizer 1evaluation "
			      "2forward 2backward 2optimizer 2evaluation");
}

static void saving_is_told_apart(void **state)
{
	struct job *j = *state;

	micro_batch(j);
	make(j, j->optimizer, MIB);
	drop(j, j->save, make(j, j->save, 100 * MIB), 100 * MIB);
	micro_batch(j);
	make(j, j->optimizer, MIB);
	assert_phases(run(j), "1forward 1backward 1optimizer 1checkpoint 2forward 2backward 2optimizer");
	assert_int_equal(j->replay.device[0].peak.part, PART_SAVING);
}

static void small_blocks_say_nothing(void **state)
{
	struct job *j = *state;

	micro_batch(j);
	make(j, j->optimizer, MIB);
	make(j, j->small, 512); /* the optimizer's counter of steps */
	make(j, j->optimizer, MIB);
	make(j, j->small, 512);
	assert_phases(run(j), "1forward 1backward 1optimizer");
}

static void clipping_is_the_optimizers(void **state)
{
	struct job *j = *state;

	micro_batch(j);
	make(j, j->clip, 100 * MIB);
	assert_phases(run(j), "1forward 1backward 1optimizer");
	assert_int_equal(j->replay.device[0].peak.part, PART_CLIPPING);
}

/* 4 MiB of parameters, 4 of gradients, 8 of states; the peak is in the second step's backward. */
static void a_life_tells_the_category(void **state)
{
	struct job *j = *state;
	const struct device *d;

	make(j, j->setup, 4 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		uint64_t x = make(j, j->input, 2 * MIB), a = make(j, j->model, 32 * MIB),
			 held = make(j, j->model, 16 * MIB), t = make_in_backward(j, j->small, 64 * MIB),
			 g;

		drop_in_backward(j, t, 64 * MIB);
		drop_in_backward(j, a, 32 * MIB);
		g = make_in_backward(j, j->small, 4 * MIB);
		if (!step)
			make(j, j->optimizer, 8 * MIB);
		drop(j, j->temporary, make(j, j->temporary, MIB), MIB);
		drop(j, j->zero_grad, g, 4 * MIB);
		drop(j, j->input, held, 16 * MIB);
		drop(j, j->input, x, 2 * MIB);
	}
	d = run(j);
	assert_int_equal(d->peak.step, 2);
	assert_int_equal(d->peak.phase, PHASE_BACKWARD);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 4);
	assert_int_equal(of(d, CATEGORY_OPTIMIZER_STATES), 8);
	assert_int_equal(of(d, CATEGORY_INPUTS), 2);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 64 + 16);
	assert_int_equal(of(d, CATEGORY_GRADIENTS), 0);
	assert_int_equal(d->at_peak.bytes, d->peak.allocated);
}

/* The trace ends in the first backward: what has a parameter's size is its gradient. */
static void without_a_future_birth_tells(void **state)
{
	struct job *j = *state;
	const struct device *d;

	make(j, j->setup, 4 * MIB);
	make(j, j->input, 2 * MIB);
	make(j, j->model, 32 * MIB);
	make_in_backward(j, j->small, 4 * MIB);
	make_in_backward(j, j->small, 9 * MIB);
	d = run(j);
	assert_int_equal(of(d, CATEGORY_PARAMETERS), 4);
	assert_int_equal(of(d, CATEGORY_INPUTS), 2);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
	assert_int_equal(of(d, CATEGORY_GRADIENTS), 4);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 9);
}

static void what_is_recomputed_is_kept_or_not(void **state)
{
	struct job *j = *state;
	const struct device *d;
	uint64_t saved, gone;

	make(j, j->model, MIB);
	saved = make_in_backward(j, j->recompute, 10 * MIB);
	gone = make_in_backward(j, j->recompute, 20 * MIB);
	write_event(&j->w, MT_TENSOR_FREE, gone, -20 * MIB, j->recompute, j->autograd);
	make_in_backward(j, j->recompute, MIB);
	make_in_backward(j, j->small, MIB);
	drop_in_backward(j, saved, 10 * MIB);
	make(j, j->optimizer, MIB);
	d = run(j);
	assert_int_equal(d->peak.part, PART_RECOMPUTE);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 11);
	assert_int_equal(of(d, CATEGORY_TEMPORARIES), 20);
}

/* DDP with gradient_as_bucket_view: backward leaves no gradients of its own. */
static void buckets_may_be_the_gradients(void **state)
{
	struct job *j = *state;

	make(j, j->buckets, 30 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(j, make(j, j->model, 10 * MIB), 10 * MIB);
		make(j, j->optimizer, MIB);
	}
	assert_int_equal(of(run(j), CATEGORY_GRADIENTS), 30);
}

static void buckets_beside_gradients_are_communication(void **state)
{
	struct job *j = *state;

	make(j, j->buckets, 30 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(j, make(j, j->model, 10 * MIB), 10 * MIB);
		drop(j, j->zero_grad, make_in_backward(j, j->small, 30 * MIB), 30 * MIB);
	}
	assert_int_equal(of(run(j), CATEGORY_COMMUNICATION), 30);
}

/* Unwinding after the failure frees what the forward pass had made: that says nothing of it. */
static void the_end_of_a_failed_job_says_nothing(void **state)
{
	struct job *j = *state;
	const struct device *d;
	uint64_t a;

	make(j, j->setup, 4 * MIB);
	make(j, j->buckets, 4 * MIB);
	a = make(j, j->model, 32 * MIB);
	write_event(&j->w, MT_TENSOR_OOM, 0, 64 * MIB, j->model, j->python);
	drop(j, j->model, a, 32 * MIB);
	d = run(j);
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 32);
	assert_int_equal(of(d, CATEGORY_COMMUNICATION), 4);
	assert_int_equal(d->failures[0].live.by_category[CATEGORY_ACTIVATIONS], 32 * MIB);
	assert_int_equal(d->failures[0].when.phase, PHASE_FORWARD);
}

/* ":4096:2:16:8" is 8.125 MiB: one in the forward pass, one in the backward pass, for good. */
static void workspaces_come_with_the_first_product(void **state)
{
	const bytes size = (4096 * 2 + 16 * 8) << 10;
	struct job *j = *state;

	for (unsigned step = 0; step < 3; step++) {
		uint64_t a = make(j, j->model, 10 * MIB);

		if (!step) {
			make(j, j->model, size);
			make_in_backward(j, j->small, size);
		}
		drop_in_backward(j, a, 10 * MIB);
		drop(j, j->zero_grad, make_in_backward(j, j->small, size), size);
		drop(j, j->temporary, make(j, j->temporary, MIB), MIB);
	}
	assert_int_equal(run(j)->at_peak.by_category[CATEGORY_WORKSPACES], 2 * size);
}

static void the_environment_may_ask_for_other_workspaces(void **state)
{
	struct job *j = *state;

	write_meta(&j->w, "env:CUBLAS_WORKSPACE_CONFIG", ":1024:3:16:64", 13);
	make(j, j->model, 4 * MIB);
	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(j, make(j, j->model, 10 * MIB), 10 * MIB);
		make(j, j->optimizer, MIB);
	}
	assert_int_equal(of(run(j), CATEGORY_WORKSPACES), 4);
}

/* A list of outputs with their graphs; and one of tensors that the job makes itself. */
static void what_piles_up_is_no_buffer(void **state)
{
	struct job *j = *state;
	const struct device *d;

	for (unsigned step = 0; step < 20; step++) {
		make(j, j->input, 2 * MIB);
		make(j, j->model, 3 * MIB);
		make_in_backward(j, j->small, MIB);
		drop(j, j->temporary, make(j, j->temporary, MIB), MIB);
	}
	d = run(j);
	assert_true(of(d, CATEGORY_ACTIVATIONS) >= 3 * 19);
	assert_true(of(d, CATEGORY_OTHER) >= 2 * 18);
	assert_int_equal(of(d, CATEGORY_BUFFERS), 0);
}

/* Computed once, within the first forward pass. */
static void what_a_module_makes_once_is_a_buffer(void **state)
{
	struct job *j = *state;

	make(j, j->evaluation, 7 * MIB);
	for (unsigned step = 0; step < 4; step++) {
		drop_in_backward(j, make(j, j->model, 10 * MIB), 10 * MIB);
		make(j, j->optimizer, MIB);
	}
	assert_int_equal(of(run(j), CATEGORY_BUFFERS), 7);
}

static void an_optimizers_closure_calls_the_model(void **state)
{
	struct job *j = *state;
	uint32_t call = write_frame(&j->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 closure = place(j, call, write_frame(&j->w, "LBFGS.step", TORCH "optim/lbfgs.py", 2), 0);

	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(j, make(j, closure, 10 * MIB), 10 * MIB);
		drop(j, j->temporary, make(j, j->temporary, MIB), MIB);
	}
	assert_phases(run(j), "1forward 1backward 1optimizer 2forward 2backward 2optimizer");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, end)
	const struct CMUnitTest tests[] = {
		CASE(setting_up_is_no_step),
		CASE(micro_batches_of_a_step_accumulate),
		CASE(a_pipeline_has_forwards_in_flight),
		CASE(an_optimizer_in_place_is_counted),
		CASE(zero_grad_ends_a_step_too),
		CASE(evaluation_leaves_nothing),
		CASE(saving_is_told_apart),
		CASE(small_blocks_say_nothing),
		CASE(clipping_is_the_optimizers),
		CASE(a_life_tells_the_category),
		CASE(without_a_future_birth_tells),
		CASE(what_is_recomputed_is_kept_or_not),
		CASE(buckets_may_be_the_gradients),
		CASE(buckets_beside_gradients_are_communication),
		CASE(the_end_of_a_failed_job_says_nothing),
		CASE(workspaces_come_with_the_first_product),
		CASE(the_environment_may_ask_for_other_workspaces),
		CASE(what_piles_up_is_no_buffer),
		CASE(what_a_module_makes_once_is_a_buffer),
		CASE(an_optimizers_closure_calls_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
