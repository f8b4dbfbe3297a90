/* Steps and phases of jobs with known events. */
#include "steps_job.h"

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
	assert_phases(run(j),
		      "1forward 1backward 1forward 1backward 1forward 1backward 1optimizer "
		      "2forward 2backward 2forward 2backward 2forward 2backward 2optimizer");
}

/* 1F1B: two forward passes before the first backward pass. */
static void a_pipeline_runs_several_forward_passes_first(void **state)
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

/* The optimizer allocates its states in step 1, and nothing later. */
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

/* Evaluation keeps almost no blocks; a forward pass of training keeps those of the backward pass.
 */
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

/* The next iteration of the loop frees the variables of the step before. */
static void cleaning_up_is_no_forward_pass(void **state)
{
	struct job *j = *state;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t held = make(j, j->model, MIB);

		micro_batch(j);
		make(j, j->optimizer, MIB);
		drop(j, j->input, held, MIB);
		make(j, j->input, MIB);
	}
	assert_phases(run(j), "1forward 1backward 1optimizer 2forward 2backward 2optimizer");
}

static void saving_is_a_phase_of_its_own(void **state)
{
	struct job *j = *state;

	micro_batch(j);
	make(j, j->optimizer, MIB);
	drop(j, j->save, make(j, j->save, 100 * MIB), 100 * MIB);
	micro_batch(j);
	make(j, j->optimizer, MIB);
	assert_phases(run(j),
		      "1forward 1backward 1optimizer 1checkpoint 2forward 2backward 2optimizer");
	assert_int_equal(j->replay.device[0].peak.part, PART_SAVING);
}

static void blocks_without_stacks_change_no_phase(void **state)
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

static void an_optimizers_closure_calls_the_model(void **state)
{
	struct job *j = *state;
	uint32_t call = write_frame(&j->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 closure = stack(j, call,
				 write_frame(&j->w, "LBFGS.step", TORCH "optim/lbfgs.py", 2), 0);

	for (unsigned step = 0; step < 2; step++) {
		drop_in_backward(j, make(j, closure, 10 * MIB), 10 * MIB);
		drop(j, j->temporary, make(j, j->temporary, MIB), MIB);
	}
	assert_phases(run(j), "1forward 1backward 1optimizer 2forward 2backward 2optimizer");
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
		CASE(cleaning_up_is_no_forward_pass),
		CASE(saving_is_a_phase_of_its_own),
		CASE(blocks_without_stacks_change_no_phase),
		CASE(clipping_is_the_optimizers),
		CASE(an_optimizers_closure_calls_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
