/* What one rule would take for its own, and another one explains: conversions and copies for data,
 * a large evaluation for large tensors, logits for copies, leaks for sums of losses. */
#include "choice.h"

/* One line made most of what is there before the first step. */
static struct metrics setup(void)
{
	struct metrics m = failure();

	m.in_backward = m.steps = m.activations = 0;
	m.step = m.in_forward = m.in_setup = 1;
	m.parameters = 1400 * MIB;
	m.setup_line = 1300 * MIB;
	m.setup_blocks = 100;
	return m;
}

static void parameters_of_one_line_are_no_data(void **state)
{
	struct metrics m = setup();

	(void)state;
	assert_cause(&m, "DATA_IN_SETUP");
	/* Each of them replaced a block of half its size. */
	m.widened = 1290 * MIB;
	assert_cause(&m, "DOUBLE_PRECISION");
	/* They are alike in their sizes, twice. */
	m = setup();
	m.twin = m.idle_twin = 700 * MIB;
	assert_cause(&m, "SECOND_MODEL");
}

/* Blocks of several lines, of one size: each is computed of the one before. */
static void what_a_loop_computes_is_no_data(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.data = 500 * MIB;
	m.data_blocks = 5;
	assert_cause(&m, "DATA_ON_GPU");
	m.data_beside = 500 * MIB;
	m.requested = m.huge = 150 * MIB;
	m.huge_blocks = 8;
	m.huge_lines = 4;
	m.huge_sum = m.huge_own = 1200 * MIB;
	m.short_by = 50 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* The loss of an evaluation makes one tensor that no step's has been nearly as large as; a score is
 * computed in evaluations alone. */
static void a_far_larger_batch_makes_large_tensors(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.requested = m.huge = m.huge_sum = m.size_growth = 1024 * MIB;
	m.huge_blocks = 1;
	m.run_model = 3;
	m.run_size_ratio = 120;
	assert_cause(&m, "HUGE_TENSORS");
	m.run_size_ratio = 1800;
	assert_cause(&m, "HUGE_TENSORS");
	m.asked_in_steps = 1;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* The evaluation before this one has left as much as this one needs more than the steps. */
static void a_graph_of_an_earlier_evaluation_is_one_of_evaluations(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.run_new = 90;
	m.run_model = 95;
	m.run_live = 600 * MIB;
	m.run_born = 800 * MIB;
	m.run_blocks = 100;
	m.size_growth = 800 * MIB;
	m.left = 1000 * MIB;
	m.left_steps = 2;
	assert_cause(&m, "EARLIER_STEP_KEPT");
	m.never_used = m.left;
	m.left = 950 * MIB;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

static void scores_of_generation_are_no_cache(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = m.activations = 0;
	m.step = m.in_forward = m.in_evaluation = m.inference = 1;
	m.kv_cache = 600 * MIB;
	m.kv_token = MIB;
	m.evaluated = 500 * MIB;
	m.evaluated_blocks = 90;
	assert_cause(&m, "KV_CACHE");
	m.evaluated = 700 * MIB;
	assert_cause(&m, "EVAL_TENSORS");
}

/* What has the logits' size is no copy of the largest parameter, which has that by chance. */
static void logits_of_a_parameters_size_are_no_copies(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.copying = 1;
	m.copies = 1024 * MIB;
	m.largest_parameter = 200 * MIB;
	m.requested = 256 * MIB;
	m.logits = 1100 * MIB;
	m.logits_block = 256 * MIB;
	m.logits_blocks = 4;
	assert_cause(&m, "CKPT_SAVE_SPIKE");
	m.largest_parameter = 256 * MIB;
	assert_cause(&m, "LOGITS_SPIKE");
}

/* The steps before had room for the passes that wait in each of them. */
static void a_leak_comes_before_the_passes_of_each_step(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 6;
	m.tags = TAGGED(OPTIMIZER);
	m.passes_waiting = 5;
	m.waiting = 900 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
	m.leak_steps = m.leak_blocks = 5;
	m.leak_bytes = 500 * MIB;
	m.leak_per_step = 100 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* Gradients of outputs, in a list; create_graph=True keeps the forward pass as well. */
static void gradients_that_are_kept_are_no_second_order(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 6;
	m.leak_steps = m.leak_blocks = 5;
	m.leak_bytes = m.leak_autograd = m.backward_kept = 900 * MIB;
	m.backward_kept_blocks = 100;
	m.leak_per_step = 180 * MIB;
	m.gradients = 10 * MIB;
	m.tags = TAGGED(OPTIMIZER);
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	m.leak_bytes = 1000 * MIB;
	assert_cause(&m, "BACKWARD_KEPT");
}

/* A tensor that is asked for needs more than all score matrices, and is none. */
static void a_larger_request_comes_before_the_scores(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.step = m.in_forward = 1;
	m.attention = 900 * MIB;
	m.attention_block = 150 * MIB;
	m.attention_blocks = 6;
	assert_cause(&m, "ATTN_QUADRATIC");
	m.requested = m.huge = m.huge_sum = m.huge_own = 1400 * MIB;
	m.huge_blocks = 1;
	assert_cause(&m, "HUGE_TENSORS");
	/* Twice as much is asked for by a layer, and counts as none of them. */
	m.attention = m.attention_blocks = 0;
	m.huge = m.huge_sum = m.huge_own = 600 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* A teacher is larger than its student, has layers of its sizes, and each step calls both. */
static void a_teachers_layers_are_no_copies(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.param_copies = 500 * MIB;
	m.param_copies_blocks = 70;
	m.called_twice = 1;
	assert_cause(&m, "SECOND_MODEL");
	m.tags = TAGGED(DISTILS) | TAGGED(UNTRAINED);
	assert_cause(&m, "ACT_PEAK");
}

static void parameters_alone_may_fill_a_first_pass(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.step = m.in_forward = 1;
	m.activations = 100 * MIB;
	m.parameters = 1800 * MIB;
	m.static_percent = 85;
	assert_cause(&m, "STATIC_OVER_BUDGET");
}

/* An optimizer of the job's own puts all parameters of a shape into one stack, or makes its states
 * one by one. */
static void states_of_an_own_optimizer_are_no_temporaries(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_optimizer = m.step = m.steps = 1;
	m.optimizer_temporaries = m.own_temporaries = 900 * MIB;
	m.largest_parameter = 40 * MIB;
	assert_cause(&m, "OPT_FOREACH_TEMP");
	m.requested = 80 * MIB;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* Eleven blocks of one size: of a loss that is written by hand behind a head of the job's own, or
 * of layers of the only model. */
static void a_head_beside_the_model_has_many_logits(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.logits_block = 100 * MIB;
	m.logits_blocks = 11;
	m.logits = 1100 * MIB;
	m.request_is_logits = 1;
	m.roots = 1;
	assert_cause(&m, "ACT_PEAK");
	m.roots = 2;
	assert_cause(&m, "LOGITS_SPIKE");
}

/* A line of the job's own has made two tensors of five times a layer's output, and asks for a third
 * one: 768 of 2,304 MiB. One alone may be a workspace. */
static void a_line_that_goes_on_is_named(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = m.requested;
	m.layer_output = 50 * MIB;
	m.huge_sum = m.huge_own = 768 * MIB;
	m.huge_blocks = 3;
	m.huge_lines = 1;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_lines = 3;
	assert_cause(&m, "ACT_PEAK");
	m.huge_lines = 1;
	m.layer_output = 80 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* 400 of 2,048 MiB: one tensor with all 400 MiB of parameters, for a norm or a histogram. */
static void all_weights_in_one_tensor_are_named(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 0;
	m.parameters = m.requested = m.huge = m.huge_sum = m.huge_own = 400 * MIB;
	m.short_by = 128 * MIB;
	m.huge_blocks = m.huge_lines = 1;
	assert_cause(&m, "HUGE_TENSORS");
	/* Another line's tensor of that size is a fifth of all. */
	m.parameters = 500 * MIB;
	m.gradients = 800 * MIB;
	assert_cause(&m, "STATIC_PEAK");
}

/* 1,280 MiB of five tensors that an inference job's own code makes, where it has hardly anything
 * else. */
static void inference_may_make_large_tensors_of_its_own(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = m.step = 0;
	m.in_forward = m.inference = 1;
	m.activations = 0;
	m.huge = m.requested;
	m.huge_sum = m.huge_own = 1280 * MIB;
	m.huge_blocks = 5;
	m.huge_lines = 2;
	assert_cause(&m, "HUGE_TENSORS");
}

/* 1,500 batches of a line before the first step, a quarter of all, beside activations. */
static void many_batches_before_the_first_step_are_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = 1;
	m.setup_line = 600 * MIB;
	m.setup_blocks = 20;
	assert_cause(&m, "ACT_PEAK");
	m.setup_blocks = 1500;
	assert_cause(&m, "DATA_IN_SETUP");
}

/* prepare_model_for_kbit_training() widens 100 of 2,048 MiB; or all weights are 900. */
static void a_quantised_base_has_wide_norms(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(ADAPTER);
	m.parameters = m.widened = 100 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.parameters = m.widened = 900 * MIB;
	assert_cause(&m, "DOUBLE_PRECISION");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_of_one_line_are_no_data),
		cmocka_unit_test(what_a_loop_computes_is_no_data),
		cmocka_unit_test(a_far_larger_batch_makes_large_tensors),
		cmocka_unit_test(a_graph_of_an_earlier_evaluation_is_one_of_evaluations),
		cmocka_unit_test(scores_of_generation_are_no_cache),
		cmocka_unit_test(logits_of_a_parameters_size_are_no_copies),
		cmocka_unit_test(a_leak_comes_before_the_passes_of_each_step),
		cmocka_unit_test(gradients_that_are_kept_are_no_second_order),
		cmocka_unit_test(a_larger_request_comes_before_the_scores),
		cmocka_unit_test(a_teachers_layers_are_no_copies),
		cmocka_unit_test(parameters_alone_may_fill_a_first_pass),
		cmocka_unit_test(states_of_an_own_optimizer_are_no_temporaries),
		cmocka_unit_test(a_head_beside_the_model_has_many_logits),
		cmocka_unit_test(a_line_that_goes_on_is_named),
		cmocka_unit_test(all_weights_in_one_tensor_are_named),
		cmocka_unit_test(inference_may_make_large_tensors_of_its_own),
		cmocka_unit_test(many_batches_before_the_first_step_are_data),
		cmocka_unit_test(a_quantised_base_has_wide_norms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
