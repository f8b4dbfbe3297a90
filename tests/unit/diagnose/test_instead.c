/* What a rule says of a job that another rule explains: the other one comes first. */
#include "choice.h"

/* Two steps have each left 300 MiB, and a call that no backward pass uses has 800. */
static void what_each_step_leaves_comes_before_a_call_that_is_unused(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.again_unused = m.unused_calls = 800 * MIB;
	assert_cause(&m, "CALL_UNUSED");
	m.step = m.steps = 3;
	m.leak_bytes = 600 * MIB;
	m.leak_steps = 2;
	m.leak_blocks = 40;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	m.leak_bytes = 350 * MIB;
	assert_cause(&m, "CALL_UNUSED");
}

/* A list holds the graphs of five steps, or the last one's is still there. */
static void the_graphs_of_all_steps_are_a_leak(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 6;
	m.in_backward = 0;
	m.in_forward = 1;
	m.kept = 600 * MIB;
	m.passes_kept = 5;
	m.kept_stacks = m.model_stacks = 12;
	assert_cause(&m, "GRAPH_KEPT");
	m.leak_bytes = 550 * MIB;
	m.leak_steps = 5;
	m.leak_blocks = 60;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	m.leak_bytes = 310 * MIB;
	assert_cause(&m, "GRAPH_KEPT");
}

/* Of four passes and more, graphs of a small network are most of all: a model beside it has more
 * lines. */
static void most_of_all_may_be_graphs_of_few_lines(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 6;
	m.in_backward = 0;
	m.in_forward = 1;
	m.kept = 1600 * MIB;
	m.passes_kept = 5;
	m.kept_stacks = 7;
	m.model_stacks = 36;
	assert_cause(&m, "GRAPH_KEPT");
	m.kept_stacks = 3;
	assert_cause(&m, "ACT_PEAK");
	m.kept_stacks = 7;
	m.passes_kept = 3;
	assert_cause(&m, "ACT_PEAK");
}

/* In the first optimizer's step, the states of a table of 500 MiB come. */
static void the_states_of_a_table_are_more_than_its_gradient(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.parameters = m.largest_parameter = m.gradients = m.table_gradient = 500 * MIB;
	m.activations = 10 * MIB;
	assert_cause(&m, "TABLE_GRADIENT");
	m.in_backward = 0;
	m.in_optimizer = m.request_is_state = 1;
	m.optimizer_states = 500 * MIB;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* Any optimizer needs the temporaries of one parameter, here of a layer that is most of all. */
static void temporaries_of_the_largest_parameter_are_not_many(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.in_backward = 0;
	m.in_optimizer = 1;
	m.activations = 10 * MIB;
	m.optimizer_states = 800 * MIB;
	m.optimizer_temporaries = 500 * MIB;
	m.requested = 200 * MIB;
	m.largest_parameter = 20 * MIB;
	assert_cause(&m, "OPT_FOREACH_TEMP");
	m.largest_parameter = 200 * MIB;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* A line makes 600 MiB, and the next one asks for as much: it computes with that. */
static void a_tensor_of_which_another_is_computed_is_no_data(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.activations = 10 * MIB;
	m.data = 600 * MIB;
	m.data_blocks = 1;
	m.requested = 600 * MIB;
	assert_cause(&m, "DATA_ON_GPU");
	m.huge = 600 * MIB;
	m.huge_sum = m.huge_own = 1200 * MIB;
	m.huge_blocks = m.huge_lines = 2;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_lines = 1;
	assert_cause(&m, "DATA_ON_GPU");
}

static struct metrics evaluation(void)
{
	struct metrics m = failure();

	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.run_model = 90;
	m.size_growth = 500 * MIB;
	return m;
}

/* What is computed of the logits of an evaluation's batch is no result that it keeps. */
static void what_is_computed_of_an_evaluations_logits(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.requested = m.evaluated = 600 * MIB;
	m.evaluated_blocks = 1;
	assert_cause(&m, "EVAL_TENSORS");
	m.logits_block = 600 * MIB;
	m.logits = 1200 * MIB;
	m.logits_blocks = 2;
	m.request_is_logits = 1;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* The keys and values that one call of the model gets are no results of two batches. */
static void two_blocks_of_one_call_are_no_results(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.run_live = 1300 * MIB;
	m.run_born = 2600 * MIB;
	m.run_repeats = m.run_calls = 2;
	m.run_repeat_bytes = m.evaluated = 800 * MIB;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_calls = 1;
	assert_cause(&m, "EVAL_TENSORS");
}

/* The same line leaves them step after step. */
static void results_that_stay_for_steps_are_a_leak(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.step = m.steps = 4;
	m.run_live = 1300 * MIB;
	m.run_born = 2600 * MIB;
	m.run_repeats = m.run_calls = 8;
	m.run_repeat_bytes = 800 * MIB;
	m.leak_bytes = m.leak_stored = 500 * MIB;
	m.leak_steps = 3;
	m.leak_blocks = 24;
	m.leak_stack = 5;
	m.repeat_stack = 6;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.repeat_stack = 5;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* A function that is called accuracy() calls the model with a batch of several times the size. */
static void a_name_and_a_larger_batch_are_an_evaluation(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.run_evaluates = 1;
	m.size_growth = 1000 * MIB;
	m.run_size_ratio = 400;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_size_ratio = 120;
	assert_cause(&m, "ACT_PEAK");
	m.run_size_ratio = 400;
	m.run_trains = 1;
	assert_cause(&m, "ACT_PEAK");
}

/* A teacher has layers of the same sizes as its student; the model of an earlier fold has, too. */
static void a_model_made_again_is_one_too_many_beside_a_teacher(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(DISTILS) | TAGGED(UNTRAINED);
	m.called_twice = 1;
	m.activations = 10 * MIB;
	m.parameters = 1200 * MIB;
	m.param_copies = 400 * MIB;
	m.param_copies_blocks = 70;
	assert_cause(&m, "STATIC_PEAK");
	m.remade = 400 * MIB;
	assert_cause(&m, "SECOND_MODEL");
}

/* In a call that only infers, layers make most of all: they are large with the batch. Tensors of
 * the job's own code are out of proportion there, too. */
static void what_layers_make_in_inference_goes_with_the_batch(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.predicts_all = m.run_evaluates = 1;
	m.step = m.steps = 0;
	m.pass_live = m.huge_sum = 1200 * MIB;
	m.huge = 400 * MIB;
	m.huge_blocks = 6;
	m.huge_lines = 2;
	assert_cause(&m, "INFERENCE_BATCH");
	m.huge_own = 800 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* No optimizer has shown. Four backward passes may be within one loss, and nineteen are steps. */
static void many_steps_are_no_derivatives_of_one_loss(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 20;
	m.backward_kept = m.leak_bytes = m.leak_autograd = 1200 * MIB;
	m.backward_kept_blocks = 200;
	m.gradients = 20 * MIB;
	m.leak_blocks = 190;
	m.leak_steps = 4;
	assert_cause(&m, "BACKWARD_KEPT");
	m.leak_steps = 19;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_each_step_leaves_comes_before_a_call_that_is_unused),
		cmocka_unit_test(the_graphs_of_all_steps_are_a_leak),
		cmocka_unit_test(most_of_all_may_be_graphs_of_few_lines),
		cmocka_unit_test(the_states_of_a_table_are_more_than_its_gradient),
		cmocka_unit_test(temporaries_of_the_largest_parameter_are_not_many),
		cmocka_unit_test(a_tensor_of_which_another_is_computed_is_no_data),
		cmocka_unit_test(what_is_computed_of_an_evaluations_logits),
		cmocka_unit_test(two_blocks_of_one_call_are_no_results),
		cmocka_unit_test(results_that_stay_for_steps_are_a_leak),
		cmocka_unit_test(a_name_and_a_larger_batch_are_an_evaluation),
		cmocka_unit_test(a_model_made_again_is_one_too_many_beside_a_teacher),
		cmocka_unit_test(what_layers_make_in_inference_goes_with_the_batch),
		cmocka_unit_test(many_steps_are_no_derivatives_of_one_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
