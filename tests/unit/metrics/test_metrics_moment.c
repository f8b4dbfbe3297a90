/* The moment of the metrics. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

/* The most is allocated when the phase begins, before any event in it. */
static void the_peak_of_a_phase_may_be_its_begin(void **state)
{
	struct fixture *f = *state;
	uint32_t name = write_stack(&f->w, 0, write_frame(&f->w, "eval", "", 0), 0, 0, 0);
	uint64_t kept = make(f, f->setup, 2 * GIB), dropped = make(f, f->setup, 4 * GIB);
	const struct metrics *m;

	drop(f, f->setup, dropped, 4 * GIB);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_BEGIN, 1, 0, name, f->python);
	drop(f, f->setup, kept, 2 * GIB);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHASE_END, 1, 0, NONE, f->python);
	f->phase = "eval";
	m = fixture_report(f)->metrics;
	assert_int_equal(m->allocated, 2 * GIB);
	assert_int_equal(m->allocated_peak, 2 * GIB);
}

/* Shards of parameters, or of none, if they are in host memory, and a gradient of 5 MiB. */
static bytes whole_gradients(struct fixture *f, int on_gpu)
{
	const char *file = TORCH "distributed/fsdp/_fully_shard/_fsdp_param.py";
	uint32_t shard = stack(f, write_frame(&f->w, "FSDPParam._init_sharded_param", file, 1),
			       write_frame(&f->w, "main", "/job/train.py", 30), 0),
		 gather = stack(f, write_frame(&f->w, "FSDPParam.init_all_gather_outputs", file, 2),
				write_frame(&f->w, "main", "/job/train.py", 31), 0);

	if (on_gpu)
		make(f, shard, 40 * MIB);
	make(f, gather, 20 * MIB);
	micro_batch(f);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	return fixture_report(f)->metrics->unsharded_gradients;
}

static void gradients_beside_shards_in_host_memory_are_whole(void **state)
{
	assert_int_equal(whole_gradients(*state, 0), 5 * MIB);
}

static void gradients_beside_shards_may_be_shards(void **state)
{
	assert_int_equal(whole_gradients(*state, 1), 0);
}

static void a_damaged_request_of_a_job_that_stores(void **state)
{
	struct fixture *f = *state;
	uint32_t line = stack(f, write_frame(&f->w, "main", "/job/train.py", 31), 0, 0);

	for (int i = 0; i < 6; i++) {
		micro_batch(f);
		make(f, f->optimizer, 8 * MIB);
		make(f, line, 100 * MIB);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, 100000000);
	assert_int_equal(fixture_report(f)->metrics->leak_stored, 400 * MIB);
}

/* Behind each step, a library takes `more`, in MiB, or gives back what it took last; it is refused
 * behind the last one. */
static const struct metrics *refused_library(struct fixture *f, const int *more, uint64_t steps)
{
	uint32_t library = write_stack(&f->w, write_module(&f->w, "/lib/libext.so"), 0, 0, 0, 0);

	for (uint64_t step = 0; step < steps; step++) {
		uint64_t g = micro_batch(f), states = make(f, f->temporary, MIB);

		drop(f, f->temporary, states, MIB);
		drop(f, f->zero_grad, g, 5 * MIB);
		if (more[step] > 0)
			fixture_event(f, MT_DEVICE_ALLOC, (step + 1) * GIB,
				      (uint64_t)more[step] * MIB, library);
		if (more[step] < 0)
			fixture_event(f, MT_DEVICE_FREE, step * GIB, 0, library);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_DEVICE_FAIL, 10 * MIB, 100 * MIB, library);
	return fixture_report(f)->metrics;
}

/* A library takes 100 MiB behind each of three steps, and is refused as much behind the fourth. */
static void what_a_library_takes_grows_until_it_is_refused(void **state)
{
	const struct metrics *m = refused_library(*state, (const int[]){ 100, 100, 100, 0 }, 4);

	assert_true(m->by_library);
	assert_int_equal(m->step, 4);
	assert_int_equal(m->outside_growth, 200 * MIB);
	assert_int_equal(m->outside_per_step, 100 * MIB);
	assert_int_equal(m->outside_saving, 300 * MIB);
}

/* 100 MiB behind each of six steps; the seventh fails before its own. The growth is that of whole
 * steps, and the first step's counts. */
static void the_step_that_failed_has_not_grown(void **state)
{
	const struct metrics *m =
		refused_library(*state, (const int[]){ 100, 100, 100, 100, 100, 100, 0 }, 7);

	assert_int_equal(m->step, 7);
	assert_int_equal(m->outside_per_step, 100 * MIB);
	assert_int_equal(m->outside_saving, 600 * MIB);
}

/* One rise may be chance, and what falls in the last step is no leak. */
static void one_rise_of_a_library_is_no_growth(void **state)
{
	const struct metrics *m = refused_library(*state, (const int[]){ 100, 100, 0 }, 3);

	assert_true(m->by_library);
	assert_int_equal(m->outside_growth, 0);
}

/* The line that is refused 100 MiB has taken as much behind earlier steps. Behind the newest call
 * of the model it may take several blocks at once. */
static void a_library_asks_for_one_more_block(void **state)
{
	const struct metrics *m = refused_library(*state, (const int[]){ 100, 100, 0 }, 3);

	assert_int_equal(m->library_blocks, 2);
	assert_int_equal(m->library, 200 * MIB);
}

static void blocks_behind_the_newest_call_are_no_earlier_ones(void **state)
{
	const struct metrics *m = refused_library(*state, (const int[]){ 100, 100 }, 2);

	assert_int_equal(m->library_blocks, 1);
}

static void a_librarys_blocks_of_other_sizes_are_other_blocks(void **state)
{
	const struct metrics *m = refused_library(*state, (const int[]){ 50, 100, 0 }, 3);

	assert_int_equal(m->library_blocks, 1);
}

static void a_library_that_gives_back_does_not_grow(void **state)
{
	const struct metrics *m = refused_library(*state, (const int[]){ 100, 100, 100, -1 }, 4);

	assert_true(m->by_library);
	assert_int_equal(m->outside_growth, 0);
}

/*
 * A step, in MiB: parameters 100, gradients 5, and 20 while they are saved: 125. Its states take
 * 40, so that every later step needs 165; without saving, 10 of activations beside the rest: 155.
 * The second step failed in its forward pass.
 */
static void later_steps_have_the_states_too(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;
	uint64_t g, saved;

	make(f, f->setup, 100 * MIB);
	g = micro_batch(f);
	saved = make(f, f->save, 20 * MIB);
	drop(f, f->save, saved, 20 * MIB);
	make(f, f->optimizer, 40 * MIB);
	drop(f, f->zero_grad, g, 5 * MIB);
	f->w.header.exit_status = 1;
	make(f, f->model, 4 * MIB);
	fixture_event(f, MT_TENSOR_OOM, MIB, 6 * MIB, f->model);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->step, 2);
	assert_int_equal(m->peak_needed, 150 * MIB);
	assert_int_equal(m->whole_need, 165 * MIB);
	assert_int_equal(m->whole_optimizer, 145 * MIB);
	assert_int_equal(m->without_saving, 10 * MIB);
}

/*
 * The first step needs 115 MiB in its passes and 145 in the optimizer's step, which makes 40 of
 * states: with these, the passes of the second step need 155. It has grown by 15 when it asks for
 * 170.
 */
static void the_states_of_the_first_step_are_no_growth(void **state)
{
	struct fixture *f = *state;
	uint64_t g;

	make(f, f->setup, 100 * MIB);
	g = micro_batch(f);
	make(f, f->optimizer, 40 * MIB);
	drop(f, f->zero_grad, g, 5 * MIB);
	f->w.header.exit_status = 1;
	make(f, f->model, 4 * MIB);
	fixture_event(f, MT_TENSOR_OOM, MIB, 26 * MIB, f->model);
	assert_int_equal(fixture_report(f)->metrics->size_growth, 15 * MIB);
}

/* In the forward pass the job's own code makes 7 MiB of its results; 50 of data were there before
 * the first step. */
static void what_the_job_makes_of_results_grows_with_the_batch(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, 100 * MIB);
	make(f, f->input, 50 * MIB);
	micro_batch(f);
	make(f, f->optimizer, 40 * MIB);
	f->w.header.exit_status = 1;
	make(f, f->model, 4 * MIB);
	make(f, f->input, 7 * MIB);
	fixture_event(f, MT_TENSOR_OOM, MIB, 26 * MIB, f->model);
	assert_int_equal(fixture_report(f)->metrics->batch_inputs, 7 * MIB);
}

/* Behind a step, two calls of the model of three blocks each; the batch of the second is made in
 * between. The calls of the step do not count. */
static void calls_since_the_last_step_are_counted(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, 100 * MIB);
	micro_batch(f);
	make(f, f->optimizer, 40 * MIB);
	f->w.header.exit_status = 1;
	for (unsigned i = 0; i < 2; i++) {
		make(f, f->input, MIB);
		for (unsigned k = 0; k < 3; k++)
			make(f, f->model, 4 * MIB);
	}
	fixture_event(f, MT_TENSOR_OOM, MIB, 26 * MIB, f->model);
	assert_int_equal(fixture_report(f)->metrics->run_calls, 2);
}

/* Data that the job's own code makes in a function called generate: no cache of keys and values. */
static void generated_data_are_no_cache(void **state)
{
	struct fixture *f = *state;
	uint32_t line =
		write_stack(&f->w, write_module(&f->w, "/torch/lib/libc10_cuda.so"),
			    write_frame(&f->w, "Synthetic.generate", "/job/data.py", 7), 0, 0, 0);
	const struct metrics *m;

	for (int i = 0; i < 50; i++)
		make(f, line, 20 * MIB);
	micro_batch(f);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->kv_cache, 0);
	assert_int_equal(m->data, 1000 * MIB);
}

/* In the backward pass of the first step: a gradient of 10 MiB, as large as the parameter, and 20
 * blocks of 3 MiB that stay. Recomputed blocks have frames. */
static void what_a_backward_pass_keeps_is_no_gradient(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	make(f, f->setup, 10 * MIB);
	make(f, f->model, 40 * MIB);
	make_in_backward(f, NONE, 10 * MIB);
	make_in_backward(f, f->recompute, 30 * MIB);
	for (int i = 0; i < 20; i++)
		make_in_backward(f, NONE, 3 * MIB);
	f->w.header.exit_status = 1;
	write_event(&f->w, MT_TENSOR_OOM, MIB, 4 * MIB, NONE, f->autograd);
	m = fixture_report(f)->metrics;
	assert_true(m->in_backward);
	assert_int_equal(m->backward_gradients, 10 * MIB);
	assert_int_equal(m->backward_kept, 60 * MIB);
	assert_int_equal(m->backward_kept_blocks, 20);
}

/* After two steps an evaluation has a batch of 60 MiB; the model asks for the other 40 MiB. */
static void a_request_of_a_module_is_a_modules(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, 10 * MIB);
	for (int step = 0; step < 2; step++) {
		uint64_t g = micro_batch(f);

		drop(f, f->zero_grad, g, 5 * MIB);
	}
	make(f, f->input, 60 * MIB);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 40 * MIB, f->evaluation);
	assert_int_equal(fixture_report(f)->metrics->run_model, 40);
}

/* Each of two steps has made the states of an optimizer of its own, of three parameters of 10, 20
 * and 30 MiB, and all are there in the third step. */
static const struct metrics *optimizers(struct fixture *f, uint32_t stack)
{
	uint64_t gradients[3];

	for (int k = 1; k <= 3; k++)
		make(f, f->setup, k * 10 * MIB);
	for (int step = 0; step < 3; step++) {
		uint64_t x = make(f, f->model, 40 * MIB);

		for (int k = 1; k <= 3; k++)
			gradients[k - 1] = make_in_backward(f, NONE, k * 10 * MIB);
		drop_in_backward(f, x, 40 * MIB);
		for (int k = 2; k < 8; k++)
			make(f, stack, k / 2 * 10 * MIB);
		for (int k = 1; k <= 3; k++)
			drop(f, f->zero_grad, gradients[k - 1], k * 10 * MIB);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 40 * MIB, f->model);
	return fixture_report(f)->metrics;
}

static void the_states_of_optimizers_are_no_tensors_that_steps_leave(void **state)
{
	const struct metrics *m = optimizers(*state, ((struct fixture *)*state)->optimizer);

	assert_int_equal(m->second_states, 240 * MIB);
	assert_int_equal(m->leak_bytes, 0);
}

/* The job's own code keeps as much: no states of an optimizer. */
static void what_the_jobs_own_code_leaves_are_no_states(void **state)
{
	const struct metrics *m = optimizers(*state, ((struct fixture *)*state)->input);

	assert_int_equal(m->second_states, 0);
	assert_true(m->leak_bytes >= 240 * MIB);
}

/* A layer of 10, 20 and 30 MiB is trained from each of three steps on, and has Adam's two states
 * from then on: they stay, and are no leak. */
static const struct metrics *unfrozen(struct fixture *f, uint32_t stack)
{
	uint64_t gradients[3];

	for (int k = 1; k <= 3; k++)
		make(f, f->setup, k * 10 * MIB);
	for (int step = 1; step <= 3; step++) {
		uint64_t x = make(f, f->model, 40 * MIB);

		for (int k = 1; k <= step; k++)
			gradients[k - 1] = make_in_backward(f, NONE, k * 10 * MIB);
		drop_in_backward(f, x, 40 * MIB);
		for (int k = 0; k < 2; k++)
			make(f, stack, step * 10 * MIB);
		for (int k = 1; k <= step; k++)
			drop(f, f->zero_grad, gradients[k - 1], k * 10 * MIB);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 40 * MIB, f->model);
	return fixture_report(f)->metrics;
}

static void states_of_layers_that_are_unfrozen_are_no_leak(void **state)
{
	const struct metrics *m = unfrozen(*state, ((struct fixture *)*state)->optimizer);

	assert_int_equal(m->optimizer_states, 120 * MIB);
	assert_int_equal(m->second_states, 0);
	assert_int_equal(m->leak_bytes, 0);
}

/* Of the first two steps: 20 and 40 MiB. */
static void what_each_step_adds_in_own_code_is_a_leak(void **state)
{
	assert_int_equal(unfrozen(*state, ((struct fixture *)*state)->input)->leak_bytes, 60 * MIB);
}

/* PyTorch takes 20 MiB for a block of 6 MiB, and 12 MiB are free. */
static void what_is_short_is_of_the_segment(void **state)
{
	struct fixture *f = *state;
	uint32_t allocator =
		write_stack(&f->w, write_module(&f->w, "/torch/lib/libc10_cuda.so"), 0, 0, 0, 0);
	const struct metrics *m;

	make(f, f->setup, 100 * MIB);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_DEVICE_FAIL, 12 * MIB, 20 * MIB, allocator);
	fixture_event(f, MT_TENSOR_OOM, 12 * MIB, 6 * MIB, f->model);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->requested, 6 * MIB);
	assert_int_equal(m->short_by, 8 * MIB);
}

/* Behind two steps, evaluate() calls the model three times, and the job's own code keeps what it
 * computes of each result; then it fails. */
static void what_is_computed_of_an_evaluations_results_is_of_its_run(void **state)
{
	struct fixture *f = *state;
	uint32_t evaluate = write_frame(&f->w, "evaluate", "/job/train.py", 30),
		 call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		 model = stack(f, forward, call, evaluate),
		 own = stack(f, write_frame(&f->w, "score", "/job/net.py", 9), 0, 0);
	const struct metrics *m;

	for (int step = 0; step < 2; step++) {
		drop(f, f->zero_grad, micro_batch(f), 5 * MIB);
		make(f, f->temporary, MIB);
	}
	for (int i = 0; i < 5; i++) {
		drop(f, model, make(f, model, 20 * MIB), 20 * MIB);
		make(f, own, 10 * MIB);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, 12 * MIB, 20 * MIB, model);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->run_repeats, 5);
	assert_int_equal(m->run_repeat_bytes, 50 * MIB);
}

/* Three steps are alike, but for one block of the last backward pass, which has no place. */
static void blocks_of_backward_passes_have_no_place(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	for (int step = 0; step < 3; step++) {
		uint64_t a = make(f, f->model, 10 * MIB),
			 g = make_in_backward(f, f->small, step < 2 ? 5 * MIB : 500 * MIB);

		drop_in_backward(f, a, 10 * MIB);
		if (step < 2) {
			make(f, f->temporary, MIB);
			drop(f, f->zero_grad, g, 5 * MIB);
		}
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, 12 * MIB, 20 * MIB, f->small);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->size_ratio, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_a_library_takes_grows_until_it_is_refused),
		CASE(the_step_that_failed_has_not_grown),
		CASE(later_steps_have_the_states_too),
		CASE(the_states_of_the_first_step_are_no_growth),
		CASE(calls_since_the_last_step_are_counted),
		CASE(what_the_job_makes_of_results_grows_with_the_batch),
		CASE(generated_data_are_no_cache),
		CASE(a_request_of_a_module_is_a_modules),
		CASE(what_a_backward_pass_keeps_is_no_gradient),
		CASE(the_states_of_optimizers_are_no_tensors_that_steps_leave),
		CASE(what_the_jobs_own_code_leaves_are_no_states),
		CASE(states_of_layers_that_are_unfrozen_are_no_leak),
		CASE(what_each_step_adds_in_own_code_is_a_leak),
		CASE(a_library_asks_for_one_more_block),
		CASE(blocks_behind_the_newest_call_are_no_earlier_ones),
		CASE(a_librarys_blocks_of_other_sizes_are_other_blocks),
		CASE(one_rise_of_a_library_is_no_growth),
		CASE(a_library_that_gives_back_does_not_grow),
		CASE(the_peak_of_a_phase_may_be_its_begin),
		CASE(what_is_short_is_of_the_segment),
		CASE(what_is_computed_of_an_evaluations_results_is_of_its_run),
		CASE(blocks_of_backward_passes_have_no_place),
		CASE(gradients_beside_shards_in_host_memory_are_whole),
		CASE(gradients_beside_shards_may_be_shards),
		CASE(a_damaged_request_of_a_job_that_stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
