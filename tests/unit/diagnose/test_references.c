/* A deep copy of the model: a teacher or reference that runs with a graph. */
#include "choice.h"

/* Two calls wait for the first backward pass: losses that are summed, or a teacher's and its
 * student's. */
static void a_copy_may_be_what_waits(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = m.run_trains = 1;
	m.passes_waiting = 1;
	m.waiting = 900 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
	m.twin = 100 * MIB;
	m.twin_copied = 1;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.passes_waiting = 2;
	assert_cause(&m, "LOSSES_SUMMED");
	/* Two views of a picture, from one line: the copy is another one's target. */
	m.passes_waiting = 1;
	m.waiting_of_line = 900 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
}

/* In the second step's forward pass there are as many gradients as the copy has parameters, and the
 * optimizer has states of the other half. */
static void gradients_of_a_copy_tell_its_graph(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.pass_newest = 700 * MIB;
	m.parameters = 200 * MIB;
	m.twin = m.gradients = 100 * MIB;
	m.optimizer_states = 200 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.twin_copied = 1;
	assert_cause(&m, "REFERENCE_GRAPH");
	/* One call keeps activations: the copy is an average of the weights, and the gradients are
	 * of the micro-batch before. */
	m.pass_newest = m.activations;
	assert_cause(&m, "ACT_PEAK");
	m.pass_newest = 700 * MIB;
	m.gradients = 60 * MIB;
	assert_cause(&m, "ACT_PEAK");
	/* Both models have gradients, and no optimizer has shown states. */
	m.gradients = 190 * MIB;
	m.optimizer_states = 0;
	assert_cause(&m, "REFERENCE_GRAPH");
}

/* Each call takes what the one before returned, by the source. */
static void a_chain_of_calls_is_no_sum_of_losses(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = m.run_trains = 1;
	m.passes_waiting = 4;
	m.waiting = m.unrolled = 900 * MIB;
	m.unrolled_calls = 4;
	assert_cause(&m, "UNROLLED_GRAPH");
	m.unrolled = m.unrolled_calls = 0;
	assert_cause(&m, "LOSSES_SUMMED");
}

/* Two models that only predict, and what the job's own code makes of their results. */
static void results_are_part_of_a_graph_of_predictions(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = m.run_evaluates = m.predicts = 1;
	m.twin = 100 * MIB;
	m.evaluated = 500 * MIB;
	m.evaluated_blocks = 16;
	m.unused_graph = 900 * MIB;
	assert_cause(&m, "EVAL_TENSORS");
	m.unused_graph = 1800 * MIB;
	assert_cause(&m, "INFERENCE_GRAPH");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_may_be_what_waits),
		cmocka_unit_test(gradients_of_a_copy_tell_its_graph),
		cmocka_unit_test(a_chain_of_calls_is_no_sum_of_losses),
		cmocka_unit_test(results_are_part_of_a_graph_of_predictions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
