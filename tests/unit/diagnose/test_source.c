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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_that_no_optimizer_trains_come_before_the_activations),
		cmocka_unit_test(loops_come_before_the_activations),
		cmocka_unit_test(the_last_position_makes_other_logits_needless),
		cmocka_unit_test(a_line_of_float64_comes_before_the_activations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
