/* Parameters and their states, and fragmentation: what is told if nothing else is, or comes first.
 */
#include "choice.h"

/* 700 MiB of weights and as many of gradients, of 2,304 with the request. */
static void states_are_told_if_nothing_else_is(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 300 * MIB;
	m.parameters = m.gradients = 700 * MIB;
	assert_cause(&m, "STATIC_PEAK");
	m.activations = 900 * MIB;
	assert_cause(&m, "ACT_PEAK");
	/* A gradient was asked for. */
	m.request_is_gradient = 1;
	assert_cause(&m, "STATIC_PEAK");
}

/* A service has 1,400 MiB of weights, 62 % of all, and a call of 600. */
static void weights_come_before_a_call_that_is_smaller(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.inference = 1;
	m.step = m.steps = 0;
	m.activations = 600 * MIB;
	m.pass_live = 600 * MIB;
	m.parameters = 1400 * MIB;
	assert_cause(&m, "STATIC_PEAK");
	m.parameters = 1300 * MIB;
	assert_cause(&m, "INFERENCE_BATCH");
}

/* A device of 6 GiB, half of it PyTorch's, whose largest free piece is too small for the request.
 */
static void have_small_pieces(struct metrics *m)
{
	m->device_total = 6 * GIB;
	m->outside = 3 * GIB;
	m->reserved = 3 * GIB - 128 * MIB;
	m->largest_free = 100 * MIB;
	m->has_largest_free = 1;
}

/* 1,200 MiB lie in pieces. The job would need 2,304 of 3,072 MiB in a perfect layout, or all. */
static void pieces_are_no_cause_if_the_job_needs_the_whole_device(void **state)
{
	struct metrics m = failure();

	(void)state;
	have_small_pieces(&m);
	m.cached = 1200 * MIB;
	m.step = m.steps = 1;
	assert_cause(&m, "FRAG_EXTERNAL");
	m.whole_need = 2800 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* 400 MiB of results, and 1,200 MiB in pieces. */
static void results_of_an_evaluation_may_lie_beside_pieces(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.steps = m.step = 2;
	m.activations = 0;
	have_small_pieces(&m);
	m.allocated_peak = 2600 * MIB;
	m.run_repeats = m.run_calls = 10;
	m.run_repeat_bytes = 400 * MIB;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.cached = 1200 * MIB;
	assert_cause(&m, "FRAG_EXTERNAL");
}

/* A checkpoint around the whole model makes all activations again at a time; those around its
 * layers a part of them. */
static void a_part_that_is_made_again_is_a_layers(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.saw_recompute = 1;
	m.activations = m.recomputed = 1400 * MIB;
	assert_cause(&m, "RECOMPUTE_INEFFECTIVE");
	m.recomputed = 1200 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_are_told_if_nothing_else_is),
		cmocka_unit_test(weights_come_before_a_call_that_is_smaller),
		cmocka_unit_test(pieces_are_no_cause_if_the_job_needs_the_whole_device),
		cmocka_unit_test(results_of_an_evaluation_may_lie_beside_pieces),
		cmocka_unit_test(a_part_that_is_made_again_is_a_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
