/* What lies apart from the newest call of the model: data before it, a model beside it, results
 * behind it. */
#include "choice.h"

/* A job that only calls its model, whose newest call takes 100 MiB. */
static struct metrics service(void)
{
	struct metrics m = failure();

	m.in_backward = m.steps = 0;
	m.in_forward = m.step = m.inference = 1;
	m.activations = 100 * MIB;
	m.pass_live = 356 * MIB;
	m.requested = 256 * MIB;
	return m;
}

static void data_that_was_there_before_the_first_call_is_named(void **state)
{
	struct metrics m = service();

	(void)state;
	m.setup_line = 1200 * MIB;
	m.setup_blocks = 16;
	assert_cause(&m, "DATA_IN_SETUP");
	/* The call needs more than that. */
	m.activations = m.pass_live = 1300 * MIB;
	assert_cause(&m, "INFERENCE_BATCH");
	m.activations = 100 * MIB;
	m.results = 1300 * MIB;
	m.results_blocks = 13;
	assert_cause(&m, "INFERENCE_RESULTS");
	/* A training has its first inputs, and not a hundred of them. */
	m = service();
	m.inference = 0;
	m.setup_line = 1200 * MIB;
	m.setup_blocks = 100;
	assert_cause(&m, "DATA_IN_SETUP");
	/* Two tensors may be the inputs; but not if they were there before the first pass began. */
	m.setup_blocks = 2;
	m.activations = 800 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.data = m.setup_line;
	m.data_blocks = 2;
	assert_cause(&m, "DATA_IN_SETUP");
}

static void outputs_of_earlier_calls_are_stored(void **state)
{
	struct metrics m = service();

	(void)state;
	m.run_evaluates = 1;
	m.passes = 3;
	m.model_stacks = 60;
	m.run_layer_stacks = 8;
	m.activations = m.pass_live = 700 * MIB;
	m.pass_newest = 300 * MIB;
	m.kv_cache = 200 * MIB;
	assert_int_equal(assert_cause(&m, "LAYERS_STORED"), 400 * MIB);
	m.pass_newest = 600 * MIB;
	assert_cause(&m, "INFERENCE_BATCH");
}

static void a_model_that_came_between_steps_is_named(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.optimizer_states = 20 * MIB;
	m.late_model = 250 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.late_model = 500 * MIB;
	assert_int_equal(assert_cause(&m, "LATE_MODEL"), 500 * MIB);
	/* A second stage of training calls its model from a new line. */
	m.run_new = 90;
	assert_cause(&m, "ACT_PEAK");
}

/* Lines of a loop keep as many blocks as one another: they have a graph. */
static void a_loop_with_a_graph_keeps_no_results(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.activations = 1600 * MIB;
	m.run_live = 1600 * MIB;
	m.run_born = 5 * GIB;
	m.run_repeats = 40;
	m.run_repeat_bytes = 900 * MIB;
	m.run_own_stacks = 2;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_own_stacks = 3;
	assert_cause(&m, "ACT_PEAK");
	m.doubled = 800 * MIB;
	m.doubled_blocks = 40;
	assert_cause(&m, "ACT_PEAK");
	m.run_evaluates = 1;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* A reference of 40 small blocks is no reason for four large ones of one place. */
static void results_beside_a_small_copy(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.in_evaluation = m.run_evaluates = 1;
	m.activations = m.run_live = 1000 * MIB;
	m.run_born = 5 * GIB;
	m.run_repeats = 4;
	m.run_repeat_bytes = 900 * MIB;
	m.param_copies = 100 * MIB;
	m.param_copies_blocks = 40;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

static void a_hundred_tensors_are_not_a_few(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = m.requested = 100 * MIB;
	m.huge_sum = m.huge_own = 1500 * MIB;
	m.huge_blocks = 64;
	m.huge_lines = 1;
	m.layer_output = 10 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_blocks = 65;
	assert_cause(&m, "ACT_PEAK");
}

/* Trainer gathers the results of an evaluation in one tensor; a loop of the job may grow another.
 */
static void trainers_growing_tensor_is_of_results(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.run_evaluates = 1;
	m.run_live = 1000 * MIB;
	m.run_born = 5 * GIB;
	m.run_repeats = 8;
	m.run_repeat_bytes = 900 * MIB;
	m.growing = 950 * MIB;
	m.growing_times = 8;
	assert_cause(&m, "GROWING_TENSOR");
	m.tags = TAGGED(TRAINER);
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* A masked autoencoder calls an encoder and a smaller decoder of one class. */
static void an_earlier_call_has_two_fifths_of_the_activations(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.again = 420 * MIB;
	m.again_is_new = m.again_was_new = 1;
	assert_cause(&m, "EARLIER_CALL");
	m.again = 400 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

static void a_copied_table_has_a_gradient_of_its_own(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = 1;
	m.extra_gradients = 300 * MIB;
	m.untied = 900 * MIB;
	m.untied_block = 290 * MIB;
	m.untied_blocks = 1;
	assert_cause(&m, "WEIGHTS_NOT_TIED");
	m.untied = m.untied_block = m.untied_blocks = 0;
	assert_cause(&m, "GRADIENT_SETS");
}

/* A teacher is called with a graph, and its logits are detached: the student's graph is used. */
static void a_graph_that_was_never_used_is_an_unused_calls(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.model_stacks = 20;
	m.passes_kept = 1;
	m.kept_stacks = 10;
	m.kept = m.left = 900 * MIB;
	m.left_steps = 2;
	m.left_blocks = 100;
	m.pass_newest = 300 * MIB;
	assert_cause(&m, "GRAPH_KEPT");
	m.never_used = m.unused_calls = 880 * MIB;
	assert_int_equal(assert_cause(&m, "CALL_UNUSED"), 880 * MIB);
	assert_int_equal(confidence_of_cause(&m), 0);
	/* Lines of the model in an evaluation are fewer. */
	m.model_stacks = 40;
	m.in_evaluation = m.run_evaluates = 1;
	m.run_layer_stacks = 8;
	m.run_blocks = 100;
	assert_cause(&m, "CALL_UNUSED");
}

/* A loop over clips of a video, whose features each keep a graph. */
static void calls_that_keep_graphs_without_training_are_inference(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = 1;
	m.unused_graph = m.activations;
	m.graph_layers = 10;
	m.line_calls = 2;
	assert_cause(&m, "ACT_PEAK");
	m.line_calls = 3;
	assert_cause(&m, "INFERENCE_GRAPH");
	m.run_trains = 1;
	assert_cause(&m, "ACT_PEAK");
}

static void inputs_and_targets_are_one_set_of_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.step = m.steps = 0;
	m.in_setup = 1;
	m.activations = m.parameters = 0;
	m.setup_line = m.data = 1100 * MIB;
	m.setup_blocks = m.data_blocks = 200;
	m.data_beside = 800 * MIB;
	assert_cause(&m, "DATA_IN_SETUP");
}

/* The scores of a whole volume are no call's, and no result of many calls. */
static void one_result_of_inference_is_named(void **state)
{
	struct metrics m = service();

	(void)state;
	m.huge = 700 * MIB;
	m.huge_sum = m.huge_own = 1400 * MIB;
	m.huge_blocks = 2;
	m.layer_output = 100 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
	m.kv_cache = 100 * MIB;
	m.pass_live = 700 * MIB;
	assert_cause(&m, "INFERENCE_BATCH");
}

/* The cache of PyTorch's allocator holds what was gathered before. */
static void what_fsdp_gathers_comes_before_its_cache(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.by_library = 1;
	m.cached = 300 * MIB;
	m.activations = 0;
	m.sharded = m.parameters = 400 * MIB;
	m.world_size = 2;
	assert_cause(&m, "NCCL_STARVED_BY_CACHE");
	m.tags = TAGGED(FSDP);
	m.gathered = m.gathered_largest = 800 * MIB;
	m.gathered_blocks = 1;
	assert_cause(&m, "FSDP_WRAP_COARSE");
}

/* A copy of the parameters for an export is being made: 200 of 254 MiB are there. */
static void a_copy_that_is_being_made_is_a_checkpoints(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = m.copying = 1;
	m.parameters = 254 * MIB + 200 * MIB;
	m.copies = 209 * MIB;
	m.activations = 0;
	assert_cause(&m, "CKPT_SAVE_SPIKE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_that_was_there_before_the_first_call_is_named),
		cmocka_unit_test(outputs_of_earlier_calls_are_stored),
		cmocka_unit_test(a_model_that_came_between_steps_is_named),
		cmocka_unit_test(a_loop_with_a_graph_keeps_no_results),
		cmocka_unit_test(a_hundred_tensors_are_not_a_few),
		cmocka_unit_test(trainers_growing_tensor_is_of_results),
		cmocka_unit_test(an_earlier_call_has_two_fifths_of_the_activations),
		cmocka_unit_test(a_copied_table_has_a_gradient_of_its_own),
		cmocka_unit_test(a_graph_that_was_never_used_is_an_unused_calls),
		cmocka_unit_test(calls_that_keep_graphs_without_training_are_inference),
		cmocka_unit_test(inputs_and_targets_are_one_set_of_data),
		cmocka_unit_test(one_result_of_inference_is_named),
		cmocka_unit_test(what_fsdp_gathers_comes_before_its_cache),
		cmocka_unit_test(a_copy_that_is_being_made_is_a_checkpoints),
		cmocka_unit_test(results_beside_a_small_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
