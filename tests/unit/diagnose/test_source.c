/* Causes that the source of the job tells. */
#include "choice.h"

/* A first forward pass, of which activations are most. */
static struct metrics first_pass(void)
{
	struct metrics m = failure();

	m.in_backward = m.steps = 0;
	m.in_forward = m.step = 1;
	m.activations = 1800 * MIB;
	return m;
}

static void calls_that_no_optimizer_trains_come_before_the_activations(void **state)
{
	struct metrics m = first_pass();

	(void)state;
	assert_cause(&m, "ACT_PEAK");
	m.unoptimized = GIB;
	assert_int_equal(assert_cause(&m, "UNOPTIMIZED_GRAPH"), GIB);
	/* Less than a fifth explains little. */
	m.unoptimized = 300 * MIB;
	assert_cause(&m, "ACT_PEAK");
	/* Behind the first step gradients and states show what is trained. */
	m.unoptimized = GIB;
	m.step = m.steps = 3;
	assert_cause(&m, "ACT_PEAK");
}

/* With DDP, what the preload recorded of optimizers is not used; what the source says is. */
static void the_source_stands_where_records_do_not_count(void **state)
{
	struct metrics m = first_pass();

	(void)state;
	m.tags = TAGGED(DDP);
	m.optimizers_known = 1;
	m.needless = 900 * MIB;
	m.unoptimized = GIB;
	assert_int_equal(assert_cause(&m, "UNOPTIMIZED_GRAPH"), GIB);
}

static void loops_come_before_the_activations(void **state)
{
	struct metrics m = first_pass();

	(void)state;
	m.unrolled = GIB;
	m.unrolled_calls = 4;
	assert_int_equal(assert_cause(&m, "UNROLLED_GRAPH"), GIB);
	m.summed = GIB;
	m.summed_calls = 4;
	assert_int_equal(assert_cause(&m, "LOSSES_OF_A_LOOP"), GIB);
	/* Of a part that no optimizer has, the graph is not needed at all. */
	m.unoptimized = 1200 * MIB;
	assert_cause(&m, "UNOPTIMIZED_GRAPH");
}

static void the_last_position_makes_other_logits_needless(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.requested = m.logits = m.logits_block = GIB;
	m.peak_needed = m.allocated + GIB;
	m.allocated_peak = m.allocated;
	m.logits_blocks = m.request_is_logits = 1;
	m.activations = 100 * MIB;
	m.size_growth = GIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.source_last = 1;
	assert_int_equal(assert_cause(&m, "LOGITS_OF_PROMPT"), GIB);
}

static void a_line_of_float64_comes_before_the_activations(void **state)
{
	struct metrics m = first_pass();

	(void)state;
	m.source_float64 = 1;
	assert_cause(&m, "DOUBLE_FROM_THE_START");
	/* Parameters that were converted on the device are told by that. */
	m.widened = 180 * MIB;
	m.parameters = 200 * MIB;
	m.peak_needed = GIB;
	assert_cause(&m, "DOUBLE_PRECISION");
}

/* A forward pass from another place than that of the steps keeps 900 MiB of the 2000 that it made;
 * its batch is three times as large. */
static struct metrics pass_from_elsewhere(void)
{
	struct metrics m = failure_in_forward();

	m.step = m.steps = 6;
	m.in_evaluation = 1;
	m.activations = 900 * MIB;
	m.run_live = 900 * MIB;
	m.run_born = 2000 * MIB;
	m.run_new = 95;
	m.run_model = 99;
	m.run_blocks = 30;
	m.run_calls = 1;
	m.run_layer_stacks = m.run_kept_stacks = 3;
	m.run_repeats = 19;
	m.run_repeat_bytes = 300 * MIB;
	m.run_size_ratio = 300;
	m.size_growth = 700 * MIB;
	return m;
}

/* Without a name, it may be a second training loop; the source tells that no backward pass is
 * behind the call. */
static void an_evaluation_may_have_no_name(void **state)
{
	struct metrics m = pass_from_elsewhere();

	(void)state;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.source_evaluates = 1;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	assert_int_equal(confidence_of_cause(&m), 1);
}

/* Under no_grad() what one line keeps of each call are results. */
static void without_gradients_there_is_no_graph(void **state)
{
	struct metrics m = pass_from_elsewhere();

	(void)state;
	m.source_evaluates = m.run_evaluates = 1;
	m.run_calls = m.line_calls = 14;
	m.run_repeats = 13;
	m.run_repeat_bytes = 850 * MIB;
	m.run_repeat_stacks = 2;
	m.run_blocks = 14;
	m.run_kept_stacks = m.run_layer_stacks = 1;
	m.run_born = 1600 * MIB;
	m.passes_waiting = 13;
	m.waiting = 850 * MIB;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.source_no_grad = 1;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* An attention mask of 1 GiB, before the first step, in the line of that name. */
static void a_mask_of_all_pairs_is_no_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.step = m.in_setup = 1;
	m.activations = 0;
	m.allocated = 1200 * MIB;
	m.requested = m.huge = GIB;
	m.huge_sum = m.huge_own = m.setup_line = 2 * GIB;
	m.huge_blocks = m.setup_blocks = 2;
	m.huge_lines = 1;
	m.model_stacks = 4;
	assert_cause(&m, "DATA_IN_SETUP");
	m.source_masks = 1;
	assert_cause(&m, "HUGE_TENSORS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_that_no_optimizer_trains_come_before_the_activations),
		cmocka_unit_test(the_source_stands_where_records_do_not_count),
		cmocka_unit_test(loops_come_before_the_activations),
		cmocka_unit_test(the_last_position_makes_other_logits_needless),
		cmocka_unit_test(a_line_of_float64_comes_before_the_activations),
		cmocka_unit_test(an_evaluation_may_have_no_name),
		cmocka_unit_test(without_gradients_there_is_no_graph),
		cmocka_unit_test(a_mask_of_all_pairs_is_no_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
