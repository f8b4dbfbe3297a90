/* Graphs that no backward pass uses, and gradients that no optimizer uses. */
#include "choice.h"

/* Two lines call the model in the second step; 600 MiB of the earlier call are live. */
static struct metrics called_again(void)
{
	struct metrics m = failure();

	m.in_backward = 0;
	m.in_forward = m.again_kept = 1;
	m.again = m.again_unused = m.unused_calls = 600 * MIB;
	return m;
}

/* In the first step, both calls may be trained. */
static void a_call_that_each_step_frees_is_unused(void **state)
{
	struct metrics m = called_again();

	(void)state;
	assert_int_equal(assert_cause(&m, "CALL_UNUSED"), 600 * MIB);
	m.again_unused = m.unused_calls = 200 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m = called_again();
	m.step = m.steps = 1;
	assert_cause(&m, "ACT_PEAK");
}

/* With a second model, the call is of that one; unless another line calls it without a graph. */
static void the_unused_call_is_of_the_second_model(void **state)
{
	struct metrics m = called_again();

	(void)state;
	m.twin = 100 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.called_twice = 1;
	assert_cause(&m, "CALL_UNUSED");
}

/* The parameters are 200 MiB, with those of the copy. A model that is made twice may be trained
 * twice. */
static void a_deep_copy_with_gradients_is_a_reference(void **state)
{
	struct metrics m = called_again();

	(void)state;
	m.again_unused = m.unused_calls = 0;
	m.twin = 100 * MIB;
	m.gradients = 200 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.twin_copied = 1;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.optimizer_states = 400 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

static void a_second_model_that_training_calls_is_needed(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.twin = m.param_copies = 400 * MIB;
	assert_cause(&m, "SECOND_MODEL");
	m.called_twice = 1;
	assert_cause(&m, "ACT_PEAK");
	/* One more is there than the one that is called. */
	m.param_copies = 800 * MIB;
	assert_cause(&m, "SECOND_MODEL");
}

/* The base has 200 MiB. */
static void an_adapter_of_the_jobs_own_shows_that_the_base_was_meant_to_be_frozen(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.gradients = 210 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.tags = TAGGED(OWN_ADAPTER);
	assert_cause(&m, "BASE_TRAINED");
	m.gradients = 10 * MIB;
	assert_cause(&m, "ACT_PEAK");
	/* The classifier's head is in modules_to_save: it is small, and the base has gradients. */
	m.gradients = 210 * MIB;
	m.tags = TAGGED(ADAPTER) | TAGGED(SAVED_MODULES);
	assert_cause(&m, "BASE_TRAINED");
}

/* 14 blocks of one stack are results if no other stack keeps as many. */
static void an_evaluation_that_keeps_graphs_keeps_many_stacks(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.requested = m.short_by = 32 * MIB;
	m.device_free = 0;
	m.run_live = 700 * MIB;
	m.run_born = 5 * GIB;
	m.run_new = m.run_model = 100;
	m.run_blocks = 44;
	m.run_repeats = 14;
	m.run_repeat_bytes = 300 * MIB;
	m.run_kept_stacks = 1;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_kept_stacks = 6;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

static void predictions_with_a_graph_are_told_before_any_training(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.step = 1;
	m.steps = 0;
	m.unused_graph = GIB;
	assert_cause(&m, "ACT_PEAK");
	m.predicts = 1;
	assert_cause(&m, "INFERENCE_GRAPH");
	assert_int_equal(confidence_of_cause(&m), 0);
}

/* In the optimizer's step no forward pass goes on: of one, nothing is needed. */
static void a_graph_in_the_optimizers_step_is_kept(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_optimizer = 1;
	m.optimizer_temporaries = 300 * MIB;
	m.optimizer_states = 200 * MIB;
	m.kept = 400 * MIB;
	m.kept_stacks = 4;
	m.model_stacks = 100;
	m.passes_kept = 1;
	m.pass_newest = 2 * GIB;
	assert_cause(&m, "OPT_FOREACH_TEMP");
	m.kept_stacks = 20;
	assert_cause(&m, "GRAPH_KEPT");
}

/* A cache of which a fifth is free is no reason beside activations. */
static void a_small_part_of_the_cache_comes_last(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.cached = 420 * MIB;
	m.reserved = m.allocated + m.cached;
	m.has_largest_free = 1;
	m.largest_free = 100 * MIB;
	m.activations = 800 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* Of 200 MiB of parameters: each has three gradients. With create_graph=True, what looks like them
 * is a graph. */
static void several_gradients_of_each_parameter_are_told(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.gradients = 600 * MIB;
	m.extra_gradients = 400 * MIB;
	assert_cause(&m, "GRADIENT_SETS");
	m.backward_kept = 600 * MIB;
	m.backward_kept_blocks = 40;
	assert_cause(&m, "BACKWARD_KEPT");
}

/* A second training loop calls the model from lines that are all new. */
static void a_repeated_pass_begins_with_a_known_line(void **state)
{
	struct metrics m = called_again();

	(void)state;
	m.again_unused = m.unused_calls = 0;
	m.again_is_new = 1;
	assert_cause(&m, "FORWARD_REPEATED");
	m.again_was_new = 1;
	assert_cause(&m, "ACT_PEAK");
}

static void an_evaluation_behind_the_first_step_may_be_larger(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.step = m.steps = 1;
	m.size_growth = 900 * MIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	/* What each step makes needlessly counts more. */
	m.gradient_copies = 300 * MIB;
	assert_cause(&m, "GRADIENT_COPIES");
	m.gradient_copies = 0;
	/* It keeps graphs: a smaller batch is not what it lacks. */
	m.run_kept_stacks = 12;
	assert_cause(&m, "ACT_PEAK");
	/* Without any training it is inference. */
	m.run_kept_stacks = m.steps = 0;
	assert_cause(&m, "ACT_PEAK");
}

static void a_first_pass_under_a_name_of_prediction_is_inference(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = 1;
	m.pass_live = m.activations + 100 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.predicts_all = 1;
	assert_cause(&m, "INFERENCE_BATCH");
}

/* What one step has left, its variables may refer to until the next one has made its own. */
static void a_huge_tensor_explains_more_than_what_one_step_left(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.left = 200 * MIB;
	m.left_blocks = 16;
	m.left_steps = 1;
	assert_cause(&m, "EARLIER_STEP_KEPT");
	assert_int_equal(confidence_of_cause(&m), 0);
	m.huge = m.huge_sum = 900 * MIB;
	m.huge_blocks = 1;
	assert_cause(&m, "HUGE_TENSORS");
	m.left_steps = 2;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

/* 15 masks, of three lines that run in each layer, are much larger than what the layers make. */
static void a_few_lines_may_make_many_huge_tensors(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = 128 * MIB;
	m.huge_sum = 1600 * MIB;
	m.huge_blocks = 15;
	m.huge_lines = 3;
	m.layer_output = 4 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
	m.layer_output = 80 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* However many lines make them, blocks of four times a layer's output are most of all. */
static void what_is_out_of_proportion_to_the_layers_is_named(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = 128 * MIB;
	m.huge_blocks = 15;
	m.huge_lines = 9;
	m.in_proportion = 20;
	m.layer_output = 32 * MIB;
	m.huge_sum = m.allocated / 2;
	assert_cause(&m, "ACT_PEAK");
	m.huge_own = m.huge_sum / 2;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_sum = m.huge_own = m.allocated / 4;
	assert_cause(&m, "ACT_PEAK");
	/* Under activation checkpointing, no layer may have a block. */
	m.huge_sum = m.huge_own = m.allocated / 10 * 6;
	m.layer_output = m.activations = 0;
	m.model_stacks = 20;
	assert_cause(&m, "HUGE_TENSORS");
}

/* One line makes 1500 MiB, before the first step, of which 1400 have the sizes of parameters. */
static void copies_of_parameters_are_no_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = m.activations = 0;
	m.in_setup = m.in_forward = m.step = 1;
	m.setup_line = 1500 * MIB;
	assert_cause(&m, "DATA_IN_SETUP");
	m.param_copies = 1400 * MIB;
	assert_cause(&m, "SECOND_MODEL");
}

/* In the first step of an optimizer, temporaries come when the states are made. */
static void gradients_without_states_are_unused_behind_the_first_states(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_optimizer = m.step = 1;
	m.steps = 0;
	m.gradients = m.parameters = 800 * MIB;
	m.unstepped = 500 * MIB;
	m.optimizer_states = 600 * MIB;
	m.optimizer_temporaries = 50 * MIB;
	assert_cause(&m, "GRADIENTS_UNUSED");
	m.request_is_state = 1;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
	m.request_is_state = 0;
	m.unstepped = 100 * MIB;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* Two lines that hold several layers each, and that no backward pass has used before. One line may
 * be a list of results; what an earlier step has left is told as that. */
static void layers_that_each_step_drops_are_unused(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.unused_layers = m.unused_calls = 900 * MIB;
	m.unused_lines = 1;
	assert_cause(&m, "ACT_PEAK");
	m.unused_lines = 2;
	assert_cause(&m, "CALL_UNUSED");
	m.left = 1000 * MIB;
	m.left_blocks = m.left_steps = 3;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_without_states_are_unused_behind_the_first_states),
		cmocka_unit_test(a_call_that_each_step_frees_is_unused),
		cmocka_unit_test(the_unused_call_is_of_the_second_model),
		cmocka_unit_test(a_deep_copy_with_gradients_is_a_reference),
		cmocka_unit_test(a_second_model_that_training_calls_is_needed),
		cmocka_unit_test(
			an_adapter_of_the_jobs_own_shows_that_the_base_was_meant_to_be_frozen),
		cmocka_unit_test(an_evaluation_that_keeps_graphs_keeps_many_stacks),
		cmocka_unit_test(predictions_with_a_graph_are_told_before_any_training),
		cmocka_unit_test(a_graph_in_the_optimizers_step_is_kept),
		cmocka_unit_test(a_small_part_of_the_cache_comes_last),
		cmocka_unit_test(several_gradients_of_each_parameter_are_told),
		cmocka_unit_test(a_repeated_pass_begins_with_a_known_line),
		cmocka_unit_test(an_evaluation_behind_the_first_step_may_be_larger),
		cmocka_unit_test(a_first_pass_under_a_name_of_prediction_is_inference),
		cmocka_unit_test(copies_of_parameters_are_no_data),
		cmocka_unit_test(a_huge_tensor_explains_more_than_what_one_step_left),
		cmocka_unit_test(a_few_lines_may_make_many_huge_tensors),
		cmocka_unit_test(what_is_out_of_proportion_to_the_layers_is_named),
		cmocka_unit_test(layers_that_each_step_drops_are_unused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
