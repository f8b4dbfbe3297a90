/* Steps and phases of jobs with known events. */
#include "steps_job.h"

static void setting_up_is_no_step(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, MIB);
	make(f, f->input, MIB);
	micro_batch(f);
	make(f, f->optimizer, MIB);
	assert_phases(run(f), "1setup 1forward 1backward 1optimizer");
}

static void micro_batches_of_a_step_accumulate(void **state)
{
	struct fixture *f = *state;

	for (unsigned step = 0; step < 2; step++) {
		for (unsigned i = 0; i < 3; i++)
			micro_batch(f);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_phases(run(f),
		      "1forward 1backward 1forward 1backward 1forward 1backward 1optimizer "
		      "2forward 2backward 2forward 2backward 2forward 2backward 2optimizer");
}

/* 1F1B: two forward passes before the first backward pass. */
static void a_pipeline_runs_several_forward_passes_first(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t a = make(f, f->model, 10 * MIB), b = make(f, f->model, 10 * MIB), c;

		drop_in_backward(f, a, 10 * MIB);
		c = make(f, f->model, 10 * MIB);
		drop_in_backward(f, b, 10 * MIB);
		drop_in_backward(f, c, 10 * MIB);
		make(f, f->optimizer, MIB);
	}
	d = run(f);
	assert_phases(d, "1forward 1backward 1forward 1backward 1optimizer "
			 "2forward 2backward 2forward 2backward 2optimizer");
	assert_int_equal(of(d, CATEGORY_ACTIVATIONS), 20);
}

/* The optimizer allocates its states in step 1, and nothing later. */
static void an_optimizer_in_place_is_counted(void **state)
{
	struct fixture *f = *state;

	for (unsigned step = 0; step < 3; step++) {
		micro_batch(f);
		micro_batch(f);
		if (!step)
			make(f, f->optimizer, MIB);
	}
	assert_phases(run(f), "1forward 1backward 1forward 1backward 1optimizer "
			      "2forward 2backward 2forward 2backward "
			      "3forward 3backward 3forward 3backward");
}

static void zero_grad_ends_a_step_too(void **state)
{
	struct fixture *f = *state;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t first = micro_batch(f), second = micro_batch(f);

		drop(f, f->zero_grad, first, 5 * MIB);
		drop(f, f->zero_grad, second, 5 * MIB);
	}
	assert_phases(run(f), "1forward 1backward 1forward 1backward 1optimizer "
			      "2forward 2backward 2forward 2backward 2optimizer");
}

/* A training step whose backward pass frees the blocks of the forward pass. */
static void train(struct fixture *f)
{
	uint64_t kept[20];

	make(f, f->input, MIB);
	for (unsigned i = 0; i < 20; i++)
		kept[i] = make(f, f->model, MIB);
	for (unsigned i = 0; i < 20; i++)
		drop_in_backward(f, kept[i], MIB);
	make(f, f->optimizer, MIB);
}

/* Evaluation keeps almost no blocks; a forward pass of training keeps those of the backward pass.
 */
static void evaluation_leaves_nothing(void **state)
{
	struct fixture *f = *state;

	for (unsigned step = 0; step < 2; step++) {
		train(f);
		for (unsigned i = 0; i < 20; i++)
			drop(f, f->evaluation, make(f, f->evaluation, MIB), MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 1evaluation "
			      "2forward 2backward 2optimizer 2evaluation");
}

/* A call, as of a loss that is a module, whose blocks are freed because a request fails in it. */
static void fail_in_call(struct fixture *f)
{
	uint64_t kept[20];

	for (unsigned i = 0; i < 20; i++)
		kept[i] = make(f, f->evaluation, MIB);
	write_event(&f->w, MT_TENSOR_OOM, MIB, 8 * MIB, f->evaluation, f->python);
	for (unsigned i = 0; i < 20; i++)
		drop(f, f->evaluation, kept[i], MIB);
}

static void blocks_freed_after_a_failure_show_no_evaluation(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 20; i++)
		make(f, f->model, MIB);
	fail_in_call(f);
	assert_phases(run(f), "1forward");
}

/* Two steps have shown the lines that they have. */
static void a_new_line_that_fails_after_steps_evaluates(void **state)
{
	struct fixture *f = *state;

	train(f);
	train(f);
	fail_in_call(f);
	assert_phases(run(f),
		      "1forward 1backward 1optimizer 2forward 2backward 2optimizer 2evaluation");
}

/* The discriminator has had its step, and the generator's calls it from another line. */
static void a_new_line_of_the_first_step_trains(void **state)
{
	struct fixture *f = *state;

	train(f);
	fail_in_call(f);
	assert_phases(run(f), "1forward 1backward 1optimizer 2forward");
}

/* The loss is a module that another line calls, so that no backward pass is next to the model's
 * call; the second step's call fails. */
static void a_call_that_fails_is_of_a_step_as_those_before(void **state)
{
	struct fixture *f = *state;
	uint64_t kept[20], loss;

	for (unsigned i = 0; i < 20; i++)
		kept[i] = make(f, f->model, MIB);
	loss = make(f, f->evaluation, MIB);
	drop_in_backward(f, loss, MIB);
	for (unsigned i = 0; i < 20; i++)
		drop_in_backward(f, kept[i], MIB);
	make(f, f->optimizer, MIB);
	for (unsigned i = 0; i < 20; i++)
		kept[i] = make(f, f->model, MIB);
	write_event(&f->w, MT_TENSOR_OOM, MIB, 8 * MIB, f->model, f->python);
	for (unsigned i = 0; i < 20; i++)
		drop(f, f->input, kept[i], MIB);
	assert_phases(run(f), "1forward 1backward 1optimizer 2forward");
}

/* What is made before a check of the evaluation, as the model's parameters, is of no evaluation. */
static void setting_up_comes_before_an_evaluation(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, MIB);
	make(f, f->input, MIB);
	for (unsigned i = 0; i < 20; i++)
		drop(f, f->evaluation, make(f, f->evaluation, MIB), MIB);
	for (unsigned step = 0; step < 2; step++)
		train(f);
	assert_phases(run(f), "1setup 1evaluation 1forward 1backward 1optimizer "
			      "2forward 2backward 2optimizer");
}

/* The next iteration of the loop frees the variables of the step before. */
static void cleaning_up_is_no_forward_pass(void **state)
{
	struct fixture *f = *state;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t held = make(f, f->model, MIB);

		micro_batch(f);
		make(f, f->optimizer, MIB);
		drop(f, f->input, held, MIB);
		make(f, f->input, MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 2forward 2backward 2optimizer");
}

static void saving_is_a_phase_of_its_own(void **state)
{
	struct fixture *f = *state;

	micro_batch(f);
	make(f, f->optimizer, MIB);
	drop(f, f->save, make(f, f->save, 100 * MIB), 100 * MIB);
	micro_batch(f);
	make(f, f->optimizer, MIB);
	assert_phases(run(f),
		      "1forward 1backward 1optimizer 1checkpoint 2forward 2backward 2optimizer");
	assert_int_equal(f->replay.device[0].peak.part, PART_SAVING);
}

static void blocks_without_stacks_change_no_phase(void **state)
{
	struct fixture *f = *state;

	micro_batch(f);
	make(f, f->optimizer, MIB);
	make(f, f->small, 512); /* the optimizer's counter of steps */
	make(f, f->optimizer, MIB);
	make(f, f->small, 512);
	assert_phases(run(f), "1forward 1backward 1optimizer");
}

static void clipping_is_the_optimizers(void **state)
{
	struct fixture *f = *state;

	micro_batch(f);
	make(f, f->clip, 100 * MIB);
	assert_phases(run(f), "1forward 1backward 1optimizer");
	assert_int_equal(f->replay.device[0].peak.part, PART_CLIPPING);
}

static void an_optimizers_closure_calls_the_model(void **state)
{
	struct fixture *f = *state;
	uint32_t call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 closure = stack(f, call,
				 write_frame(&f->w, "LBFGS.step", TORCH "optim/lbfgs.py", 2), 0);

	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(f, make(f, closure, 10 * MIB), 10 * MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 2forward 2backward 2optimizer");
}

static void mark_step(struct fixture *f, bytes count)
{
	write_event_on(&f->w, MT_NO_DEVICE, MT_STEP, 0, count, NONE, f->python);
}

/* The job's marks win: two turns of the optimizer are one step. */
static void marked_steps_win(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, MIB);
	for (unsigned step = 0; step < 2; step++) {
		mark_step(f, step + 1);
		for (unsigned i = 0; i < 2; i++) {
			micro_batch(f);
			make(f, f->optimizer, MIB);
		}
	}
	assert_phases(run(f), "1setup 1forward 1backward 1optimizer 1forward 1backward 1optimizer "
			      "2forward 2backward 2optimizer 2forward 2backward 2optimizer");
}

/* Marked at the end of each step: before the first mark is step 1. */
static void steps_may_be_marked_at_their_end(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, MIB);
	for (unsigned step = 0; step < 2; step++) {
		micro_batch(f);
		micro_batch(f);
		mark_step(f, step + 1);
	}
	make(f, f->model, MIB);
	assert_phases(run(f), "1setup 1forward 1backward 1forward 1backward "
			      "2forward 2backward 2forward 2backward 3forward");
}

/* Two steps with a request of `where` behind them, which fails. `kept`: in each step, that line
 * makes a block behind the backward pass. */
static const struct device *failed_behind(struct fixture *f, uint32_t where, int kept)
{
	for (unsigned step = 0; step < 2; step++) {
		uint64_t input = make(f, f->input, MIB), g = micro_batch(f);

		if (kept)
			make(f, where, MIB);
		else
			make(f, f->optimizer, MIB);
		drop(f, f->zero_grad, g, 5 * MIB);
		drop(f, f->input, input, MIB);
	}
	f->w.header.exit_status = 1;
	write_event(&f->w, MT_TENSOR_OOM, MIB, 8 * MIB, where, f->python);
	return run(f);
}

static void an_input_that_fails_is_of_the_next_step(void **state)
{
	struct fixture *f = *state;
	const struct device *d = failed_behind(f, f->input, 0);

	assert_int_equal(d->failures[0].when.step, 3);
	assert_int_equal(d->failures[0].when.phase, PHASE_FORWARD);
}

/* The first batch came from another line. */
static void a_new_line_that_fails_behind_the_optimizer_is_of_the_next_step(void **state)
{
	struct fixture *f = *state;
	uint32_t main = write_frame(&f->w, "main", "/job/train.py", 12);
	const struct device *d = failed_behind(f, stack(f, main, 0, 0), 0);

	assert_int_equal(d->failures[0].when.step, 3);
	assert_int_equal(d->failures[0].when.phase, PHASE_FORWARD);
}

static void without_gradients_it_is_an_evaluation(void **state)
{
	struct fixture *f = *state;
	uint32_t line = stack(f, write_frame(&f->w, "evaluate", "/job/train.py", 30),
			      write_frame(&f->w, "context_decorator.<locals>.decorate_context",
					  TORCH "utils/_contextlib.py", 1),
			      0);
	const struct device *d = failed_behind(f, line, 0);

	assert_int_equal(d->failures[0].when.step, 2);
	assert_int_equal(d->failures[0].when.phase, PHASE_EVALUATION);
}

/* The job has caught the error, and ended. */
static void what_a_job_survives_at_its_end_begins_no_step(void **state)
{
	struct fixture *f = *state;
	const struct device *d;

	f->w.header.state = MT_STATE_ENDED;
	for (unsigned step = 0; step < 2; step++) {
		uint64_t input = make(f, f->input, MIB), g = micro_batch(f);

		make(f, f->optimizer, MIB);
		drop(f, f->zero_grad, g, 5 * MIB);
		drop(f, f->input, input, MIB);
	}
	write_event(&f->w, MT_TENSOR_OOM, MIB, 8 * MIB, f->input, f->python);
	d = run(f);
	assert_int_equal(d->failures[0].when.step, 2);
}

/* An optimizer of the job's own makes such a block in each step. */
static void a_line_behind_backward_passes_makes_no_input(void **state)
{
	struct fixture *f = *state;
	uint32_t main = write_frame(&f->w, "update", "/job/train.py", 12);
	const struct device *d = failed_behind(f, stack(f, main, 0, 0), 1);

	assert_int_equal(d->failures[0].when.step, 2);
	assert_int_equal(d->failures[0].when.phase, PHASE_OPTIMIZER);
}

/* An evaluation calls the model, then a module that computes its loss, and keeps something of each
 * batch: no step begins with that. */
static void the_loss_of_an_evaluation_begins_no_step(void **state)
{
	struct fixture *f = *state;
	uint32_t call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 line = write_frame(&f->w, "main", "/job/train.py", 30),
		 loss = stack(f, write_frame(&f->w, "Loss.forward", "/job/net.py", 9), call, line);

	for (unsigned step = 0; step < 2; step++)
		train(f);
	for (unsigned batch = 0; batch < 4; batch++) {
		for (unsigned i = 0; i < 20; i++)
			drop(f, f->evaluation, make(f, f->evaluation, MIB), MIB);
		for (unsigned i = 0; i < 20; i++)
			drop(f, loss, make(f, loss, MIB), MIB);
		make(f, f->input, MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 2forward 2backward 2optimizer "
			      "2evaluation");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(setting_up_is_no_step),
		CASE(micro_batches_of_a_step_accumulate),
		CASE(a_pipeline_runs_several_forward_passes_first),
		CASE(an_optimizer_in_place_is_counted),
		CASE(zero_grad_ends_a_step_too),
		CASE(evaluation_leaves_nothing),
		CASE(blocks_freed_after_a_failure_show_no_evaluation),
		CASE(a_new_line_that_fails_after_steps_evaluates),
		CASE(a_new_line_of_the_first_step_trains),
		CASE(a_call_that_fails_is_of_a_step_as_those_before),
		CASE(setting_up_comes_before_an_evaluation),
		CASE(cleaning_up_is_no_forward_pass),
		CASE(saving_is_a_phase_of_its_own),
		CASE(blocks_without_stacks_change_no_phase),
		CASE(clipping_is_the_optimizers),
		CASE(an_optimizers_closure_calls_the_model),
		CASE(marked_steps_win),
		CASE(steps_may_be_marked_at_their_end),
		CASE(an_input_that_fails_is_of_the_next_step),
		CASE(a_new_line_that_fails_behind_the_optimizer_is_of_the_next_step),
		CASE(what_a_job_survives_at_its_end_begins_no_step),
		CASE(without_gradients_it_is_an_evaluation),
		CASE(a_line_behind_backward_passes_makes_no_input),
		CASE(the_loss_of_an_evaluation_begins_no_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
