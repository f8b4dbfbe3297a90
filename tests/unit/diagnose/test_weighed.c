/* What explains more of the memory, or is shown by more, comes before a symptom. */
#include "choice.h"

/* In the first step, a pass waits for its backward pass, and few tensors have most of all. */
static void what_explains_four_times_as_much_comes_first(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.passes_waiting = 1;
	m.waiting = 320 * MIB;
	m.step = m.steps = 1;
	assert_cause(&m, "LOSSES_SUMMED");
	m.huge = 250 * MIB;
	m.huge_blocks = 6;
	m.huge_sum = 1200 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
	m.huge_sum = 1500 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* A request of the job's own code between the steps; the model has made little of what is there. */
static struct metrics evaluation(void)
{
	struct metrics m = failure();

	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.run_evaluates = 1;
	m.size_growth = 1000 * MIB;
	return m;
}

static void one_tensor_of_the_jobs_own_is_no_evaluations_batch(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.requested = m.huge = m.huge_sum = 1024 * MIB;
	m.huge_blocks = 1;
	m.run_model = 90;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_model = 3;
	assert_cause(&m, "HUGE_TENSORS");
}

/* The first layers of a pass have most of what it made: they keep no graph for that, unless the
 * steps do not call the model from there. */
static void the_first_layers_of_a_large_batch_are_no_graph(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.run_model = 90;
	m.run_live = 1200 * MIB;
	m.run_born = 2000 * MIB;
	m.run_blocks = 10;
	m.run_new = 50;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_new = 80;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	/* The lines of the model make blocks three times as large as in any step. */
	m.run_size_ratio = 300;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.run_evaluates = 0;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.run_size_ratio = 120;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

/* The model has run with blocks of the steps' sizes, and the logits that are asked for are larger.
 */
static void the_batch_of_the_steps_is_no_larger_one(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.run_model = 90;
	m.requested = m.logits = m.logits_block = 900 * MIB;
	m.logits_blocks = m.request_is_logits = 1;
	m.activations = 0;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_size_ratio = 100;
	assert_cause(&m, "LOGITS_SPIKE");
}

/* A data set of 900 MiB; 460 MiB are free in the cache. */
static void data_that_is_most_of_all_is_no_fragmentation(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_forward = 1;
	m.cached = 460 * MIB;
	m.reserved += m.cached;
	m.largest_free = 100 * MIB;
	m.has_largest_free = 1;
	m.data_blocks = 8;
	m.data = 700 * MIB;
	assert_cause(&m, "FRAG_EXTERNAL");
	m.data = 900 * MIB;
	assert_cause(&m, "DATA_ON_GPU");
}

/* 32 blocks of one line, in two calls of the model. */
static void layers_of_a_large_batch_are_no_results(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.run_live = 1500 * MIB;
	m.run_born = 4000 * MIB;
	m.run_model = 90;
	m.run_repeats = 32;
	m.run_repeat_bytes = 1200 * MIB;
	m.run_calls = 2;
	m.run_evaluates = 0;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_size_ratio = 300;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_calls = 32;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* Each validation leaves its results. */
static void results_of_earlier_evaluations_are_of_the_same_line(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.size_growth = 0;
	m.run_repeats = 4;
	m.run_repeat_bytes = 500 * MIB;
	m.run_live = 600 * MIB;
	m.run_born = 4000 * MIB;
	m.left = 800 * MIB;
	m.left_steps = 2;
	m.left_blocks = 4;
	m.left_stack = 5;
	m.repeat_stack = 6;
	assert_cause(&m, "EARLIER_STEP_KEPT");
	m.repeat_stack = 5;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* Two backward passes, and no optimizer: an attack with create_graph, perhaps. */
static void derivatives_of_one_loss_are_no_steps(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.left = 1500 * MIB;
	m.left_blocks = 12;
	m.left_steps = 2;
	assert_cause(&m, "EARLIER_STEP_KEPT");
	assert_int_equal(confidence_of_cause(&m), 0);
	m.left_steps = 3;
	assert_int_equal(confidence_of_cause(&m), 1);
	m.left_steps = 2;
	m.backward_kept = 600 * MIB;
	m.backward_kept_blocks = 8;
	m.gradients = 100 * MIB;
	assert_cause(&m, "BACKWARD_KEPT");
	m.tags = TAGGED(OPTIMIZER);
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

static void graphs_of_one_loss_are_no_leak(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.leak_steps = 3;
	m.leak_blocks = 90;
	m.leak_bytes = 1600 * MIB;
	m.leak_per_step = 533 * MIB;
	m.kept = 700 * MIB;
	m.passes_kept = 3;
	m.pass_newest = 200 * MIB;
	m.kept_stacks = 18;
	m.model_stacks = 22;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	m.leak_autograd = 800 * MIB;
	assert_cause(&m, "GRAPH_KEPT");
	m.tags = TAGGED(OPTIMIZER);
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* Two gradients of 122 MiB of a table that is tied to the output, and two copies of it. */
static void gradients_that_are_added_up_are_no_sets(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 0;
	m.parameters = 520 * MIB;
	m.gradients = 1000 * MIB;
	m.extra_gradients = 500 * MIB;
	m.largest_parameter = 100 * MIB;
	m.param_copies = 700 * MIB;
	m.param_copies_blocks = 2;
	assert_cause(&m, "GRADIENT_SETS");
	m.largest_parameter = 500 * MIB;
	assert_cause(&m, "SECOND_MODEL");
}

/* The states are there, and beside what was asked for a few small temporaries. */
static void small_temporaries_of_the_first_step_follow_the_states(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = m.step = m.steps = 1;
	m.activations = 0;
	m.optimizer_states = 900 * MIB;
	m.requested = m.short_by = 3 * MIB;
	m.device_free = 0;
	m.optimizer_temporaries = 5 * MIB;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* The states are twice the temporaries, and two ranks could share them. */
static void states_that_ranks_could_share_come_before_temporaries(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_optimizer = m.step = m.steps = 1;
	m.world_size = 2;
	m.optimizer_states = 600 * MIB;
	m.optimizer_temporaries = 300 * MIB;
	assert_cause(&m, "OPT_FOREACH_TEMP");
	m.data_parallel = 1;
	assert_cause(&m, "DIST_OPT_OFF");
	/* In a later step the states were there before. */
	m.step = m.steps = 3;
	assert_cause(&m, "OPT_FOREACH_TEMP");
}

/* Of each of six steps, one line of the model has the outputs of six layers. */
static void outputs_of_layers_are_stored(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.step = m.steps = 7;
	m.tags = TAGGED(OPTIMIZER);
	m.leak_steps = m.passes_kept = 6;
	m.leak_blocks = 36;
	m.leak_bytes = m.kept = m.left = 900 * MIB;
	m.leak_per_step = 150 * MIB;
	m.pass_newest = 400 * MIB;
	m.kept_stacks = 1;
	m.model_stacks = 20;
	assert_int_equal(assert_cause(&m, "LAYERS_STORED"), 900 * MIB);
	/* One result of each step. */
	m.leak_blocks = 6;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	/* The model has no other lines: a recurrent cell, whose graph this is. */
	m.leak_blocks = 36;
	m.model_stacks = 2;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* A small model is called 27 times, and a line has 42 blocks of that: of two layers each. */
static void two_blocks_of_each_call_are_no_results(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.run_live = 1200 * MIB;
	m.run_born = 2600 * MIB;
	m.run_repeats = 42;
	m.run_repeat_bytes = 900 * MIB;
	m.run_calls = 42;
	m.run_new = m.run_model = 95;
	m.run_blocks = 80;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_calls = 27;
	m.passes_waiting = 26;
	m.waiting = 1100 * MIB;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

/* The tensors of one function of the loss are no larger than a layer's output. */
static void lines_of_one_function_are_out_of_proportion(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.step = 1;
	m.huge = 150 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = m.huge_lines = 8;
	m.in_proportion = 14;
	m.layer_output = 140 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.one_function = 1200 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* Three calls of a model without any backward pass: five of its 20 lines have blocks of several. */
static struct metrics calls(void)
{
	struct metrics m = failure();

	m.in_backward = m.steps = 0;
	m.in_forward = m.step = m.run_evaluates = 1;
	m.activations = 1700 * MIB;
	m.passes = 3;
	m.pass_newest = 500 * MIB;
	m.model_stacks = 20;
	m.run_layer_stacks = 5;
	m.passes_waiting = 1;
	m.waiting = 900 * MIB;
	m.unused_graph = 1700 * MIB;
	m.predicts = 1;
	return m;
}

static void what_a_few_layers_leave_is_stored(void **state)
{
	struct metrics m = calls();

	(void)state;
	assert_int_equal(assert_cause(&m, "LAYERS_STORED"), 1200 * MIB);
	assert_int_equal(confidence_of_cause(&m), 1);
	m.run_layer_stacks = 8;
	assert_cause(&m, "INFERENCE_GRAPH");
	m.run_layer_stacks = 5;
	/* A function of training calls them: they wait for a backward pass. */
	m.run_trains = 1;
	m.predicts = 0;
	assert_cause(&m, "LOSSES_SUMMED");
}

/* Labels of one_hot() are what the logits are copied for. */
static void labels_of_eight_bytes_come_before_the_logits(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.logits = 700 * MIB;
	m.logits_blocks = 5;
	assert_cause(&m, "LOGITS_SPIKE");
	m.wide_labels = 400 * MIB;
	assert_int_equal(assert_cause(&m, "WIDE_LABELS"), 400 * MIB);
	m.wide_labels = 200 * MIB;
	assert_cause(&m, "LOGITS_SPIKE");
}

/* Large tensors in a forward pass: seven of two lines. */
static struct metrics large_tensors(void)
{
	struct metrics m = failure_in_forward();

	m.step = 1;
	m.steps = 0;
	m.huge = 256 * MIB;
	m.huge_sum = 1400 * MIB;
	m.huge_blocks = 7;
	m.huge_lines = 2;
	m.huge_own = 1400 * MIB;
	m.model_stacks = 10;
	m.activations = 1500 * MIB;
	return m;
}

/* The layers of a library's model make them, several each: nobody computes those in chunks. */
static void large_tensors_of_a_library_are_activations(void **state)
{
	struct metrics m = large_tensors();

	(void)state;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_of_library = 1;
	assert_cause(&m, "ACT_PEAK");
}

/* One tensor of 800 MiB was there before the model's first call: with 900 MiB of activations by
 * now, it is data; with twice as many, it may be the batch. */
static void a_tensor_before_the_first_call_is_data_or_an_input(void **state)
{
	struct metrics m = large_tensors();

	(void)state;
	m.huge = m.huge_sum = m.huge_own = 800 * MIB;
	m.huge_blocks = m.huge_lines = 1;
	m.activations = 900 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
	m.setup_line = 800 * MIB;
	m.setup_blocks = 1;
	assert_cause(&m, "DATA_IN_SETUP");
	m.activations = 1800 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* The backward pass would need 250 of the 300 MiB of gradients again. */
static void gradients_that_would_come_again_explain_nothing(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.tags = TAGGED(OPTIMIZER);
	m.step = m.steps = 3;
	m.gradients = m.old_gradients = m.without_old_gradients = 300 * MIB;
	m.activations = 900 * MIB;
	assert_cause(&m, "GRADS_HELD_IN_FORWARD");
	m.without_old_gradients = 50 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* A line asks for a second tensor of the size of its first one, of which it computes it. */
static void what_a_line_computes_of_its_own_tensor_is_no_data(void **state)
{
	struct metrics m = large_tensors();

	(void)state;
	m.step = m.steps = 3;
	m.requested = m.huge = m.data = 500 * MIB;
	m.data_blocks = m.huge_lines = 1;
	m.huge_sum = m.huge_own = 1000 * MIB;
	m.huge_blocks = 2;
	m.allocated = GIB;
	m.activations = 200 * MIB;
	assert_cause(&m, "DATA_ON_GPU");
	m.source_computes = 1;
	assert_cause(&m, "HUGE_TENSORS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_of_eight_bytes_come_before_the_logits),
		cmocka_unit_test(what_explains_four_times_as_much_comes_first),
		cmocka_unit_test(one_tensor_of_the_jobs_own_is_no_evaluations_batch),
		cmocka_unit_test(the_first_layers_of_a_large_batch_are_no_graph),
		cmocka_unit_test(the_batch_of_the_steps_is_no_larger_one),
		cmocka_unit_test(data_that_is_most_of_all_is_no_fragmentation),
		cmocka_unit_test(layers_of_a_large_batch_are_no_results),
		cmocka_unit_test(results_of_earlier_evaluations_are_of_the_same_line),
		cmocka_unit_test(derivatives_of_one_loss_are_no_steps),
		cmocka_unit_test(graphs_of_one_loss_are_no_leak),
		cmocka_unit_test(gradients_that_are_added_up_are_no_sets),
		cmocka_unit_test(small_temporaries_of_the_first_step_follow_the_states),
		cmocka_unit_test(states_that_ranks_could_share_come_before_temporaries),
		cmocka_unit_test(outputs_of_layers_are_stored),
		cmocka_unit_test(two_blocks_of_each_call_are_no_results),
		cmocka_unit_test(lines_of_one_function_are_out_of_proportion),
		cmocka_unit_test(what_a_few_layers_leave_is_stored),
		cmocka_unit_test(large_tensors_of_a_library_are_activations),
		cmocka_unit_test(a_tensor_before_the_first_call_is_data_or_an_input),
		cmocka_unit_test(gradients_that_would_come_again_explain_nothing),
		cmocka_unit_test(what_a_line_computes_of_its_own_tensor_is_no_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
