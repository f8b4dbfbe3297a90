/* Causes of which another one explains more, or the same better. */
#include "choice.h"

/* Hooks stored half of it in earlier steps, half in this one: what is left is theirs. */
static void what_hooks_left_is_stored_by_hooks(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.step = m.steps = 3;
	m.left = 500 * MIB;
	m.left_blocks = 50;
	m.left_steps = 1;
	m.hooked = 600 * MIB;
	m.hooked_blocks = 60;
	assert_cause(&m, "EARLIER_STEP_KEPT");
	m.hooked = 1000 * MIB;
	m.hooked_blocks = 100;
	assert_cause(&m, "HOOKS_STORE");
}

/* One tensor of the job's own code in an evaluation: what an evaluation computes asks for more of
 * its size; beside data, a layer asks for little. */
static void an_evaluation_asks_for_what_it_makes(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.activations = 100 * MIB;
	m.data = m.huge = m.huge_sum = m.huge_own = m.run_repeat_bytes = 900 * MIB;
	m.data_blocks = m.huge_blocks = 1;
	assert_cause(&m, "HUGE_TENSORS");
	m.requested = 100 * MIB;
	m.short_by = 50 * MIB;
	assert_cause(&m, "DATA_ON_GPU");
}

/* A tensor that no_grad() code made, and that a training step has beside it. */
static void a_result_does_not_last_into_training(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 100 * MIB;
	m.data = m.huge_sum = m.huge = 1200 * MIB;
	m.data_blocks = m.huge_blocks = m.data_of_no_grad = 1;
	assert_cause(&m, "HUGE_TENSORS");
	m.requested = 100 * MIB;
	m.short_by = 50 * MIB;
	assert_cause(&m, "DATA_ON_GPU");
	m.in_evaluation = 1;
	assert_cause(&m, "HUGE_TENSORS");
}

/* A query and its answer are two calls of each step; three calls are micro-batches. */
static void two_calls_of_each_step_are_towers(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.waiting = 700 * MIB;
	m.passes_waiting = 2;
	assert_cause(&m, "LOSSES_SUMMED");
	m.passes_waiting = 1;
	assert_cause(&m, "ACT_PEAK");
	/* Two losses of a language model. */
	m.logits = 50 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
	m.logits = 0;
	m.step = m.steps = 1;
	assert_cause(&m, "LOSSES_SUMMED");
}

/* What each of three steps left is no call of this one. */
static void a_leak_is_no_unused_call(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.again_kept = 1;
	m.step = m.steps = 4;
	m.again = m.again_unused = m.unused_calls = 900 * MIB;
	assert_cause(&m, "CALL_UNUSED");
	m.leak_steps = m.leak_blocks = 3;
	m.leak_bytes = 600 * MIB;
	m.leak_per_step = 200 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* 1280 MiB of scores, beside a quarter of that of a call that may be a reference's. */
static void scores_come_before_little_that_is_doubtful(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.twin = 100 * MIB;
	m.again = 330 * MIB;
	m.again_kept = 1;
	m.gradients = 100 * MIB;
	m.attention = 1280 * MIB;
	m.attention_block = 320 * MIB;
	m.attention_blocks = 4;
	m.attention_linear = 10 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.again = 310 * MIB;
	assert_cause(&m, "ATTN_QUADRATIC");
}

/* The states are there in all jobs that reach a second step. */
static void states_of_an_earlier_step_are_less_sure(void **state)
{
	struct metrics m = failure();
	int confidence;

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = 1;
	m.step = m.steps = 1;
	m.activations = 0;
	m.gradients = 400 * MIB;
	m.parameters = 400 * MIB;
	m.optimizer_states = 600 * MIB;
	m.tags = TAGGED(OPTIMIZER);
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
	confidence = confidence_of_cause(&m);
	m.step = m.steps = 2;
	m.in_optimizer = 0;
	m.in_forward = 1;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
	assert_int_equal(confidence_of_cause(&m), confidence - 1);
}

/* Without a graph, several lines of the model have blocks of each of six calls. */
static void under_no_grad_several_lines_are_stored(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.run_calls = 6;
	m.run_repeats = 48;
	m.run_repeat_bytes = 600 * MIB;
	m.run_live = 1200 * MIB;
	m.run_born = 2000 * MIB;
	m.run_kept_stacks = 6;
	m.run_layer_stacks = 6;
	m.run_blocks = 200;
	m.run_model = 100;
	m.no_grad = 1;
	assert_cause(&m, "LAYERS_STORED");
	m.run_calls = 2;
	assert_cause(&m, "ACT_PEAK");
}

/* A line asks for float64: before large tensors, which would be half as large. */
static void a_type_that_a_line_asks_for_comes_first(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = 300 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = 4;
	m.float64_layers = 9;
	assert_cause(&m, "HUGE_TENSORS");
	m.source_float64 = 1;
	assert_cause(&m, "DOUBLE_FROM_THE_START");
}

/* In the first step, the discriminator is called twice, behind the generator. */
static void a_generators_graph_is_no_sum_of_losses(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.waiting = 1200 * MIB;
	m.passes_waiting = 1;
	assert_cause(&m, "LOSSES_SUMMED");
	m.generator_graph = 1000 * MIB;
	assert_cause(&m, "GENERATOR_GRAPH");
}

/* Each of three steps makes parameters of 200 MiB, as those of another user's adapters: the next
 * one will, too. After two steps, it may be a model of another fold. */
static void models_of_each_step_are_left_by_steps(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.param_copies = m.remade = 600 * MIB;
	m.param_copies_blocks = 60;
	m.leak_bytes = m.leak_stored = 400 * MIB;
	m.leak_steps = 2;
	m.leak_blocks = 40;
	assert_cause(&m, "SECOND_MODEL");
	m.leak_bytes = m.leak_stored = 600 * MIB;
	m.leak_steps = 3;
	m.leak_blocks = 60;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	/* Most of the copies are no step's. */
	m.param_copies = m.remade = 1300 * MIB;
	assert_cause(&m, "SECOND_MODEL");
}

/* A copy's gradients are there beside what its call keeps: 18 % and 10 % of what is allocated. */
static void a_reference_has_gradients_beside_its_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.again_kept = 1;
	m.parameters = 800 * MIB;
	m.twin = m.gradients = 380 * MIB;
	m.again = 205 * MIB;
	m.activations = 600 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.again = 150 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.again = 205 * MIB;
	m.step = m.steps = 1;
	assert_cause(&m, "ACT_PEAK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_hooks_left_is_stored_by_hooks),
		cmocka_unit_test(an_evaluation_asks_for_what_it_makes),
		cmocka_unit_test(a_result_does_not_last_into_training),
		cmocka_unit_test(two_calls_of_each_step_are_towers),
		cmocka_unit_test(a_leak_is_no_unused_call),
		cmocka_unit_test(scores_come_before_little_that_is_doubtful),
		cmocka_unit_test(states_of_an_earlier_step_are_less_sure),
		cmocka_unit_test(under_no_grad_several_lines_are_stored),
		cmocka_unit_test(a_type_that_a_line_asks_for_comes_first),
		cmocka_unit_test(a_generators_graph_is_no_sum_of_losses),
		cmocka_unit_test(models_of_each_step_are_left_by_steps),
		cmocka_unit_test(a_reference_has_gradients_beside_its_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
