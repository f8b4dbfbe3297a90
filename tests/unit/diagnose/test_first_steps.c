/* What the first steps tell, and what a later step tells by what it needs more than they did. */
#include "choice.h"

/* The first step: no backward pass has come yet. Two lines have called the model, and the earlier
 * call's 600 MiB are there. */
static struct metrics two_calls(void)
{
	struct metrics m = failure();

	m.in_backward = m.steps = 0;
	m.in_forward = m.step = 1;
	m.activations = 1500 * MIB;
	m.again = 600 * MIB;
	m.again_was_new = m.again_is_new = 1;
	return m;
}

static void an_earlier_call_comes_before_the_activations(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	/* Logits of both calls make the peak no less. */
	m.logits = 800 * MIB;
	m.logits_block = 200 * MIB;
	m.logits_blocks = 4;
	assert_cause(&m, "EARLIER_CALL");
	m.logits = m.logits_blocks = 0;
	assert_int_equal(assert_cause(&m, "EARLIER_CALL"), 600 * MIB);
	assert_int_equal(confidence_of_cause(&m), 0);
	/* A tensor of a size out of proportion is known for certain. */
	m.huge = m.huge_sum = 1100 * MIB;
	m.huge_blocks = 1;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_blocks = 9;
	/* The newer call has freed what the earlier one keeps. */
	m.again_freed = 1;
	assert_cause(&m, "ACT_PEAK");
	m.again_freed = 0;
	m.again = 300 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* Two models are on the device, and one line has called one of them; or the loss has a network. */
static void a_model_that_may_not_be_trained_comes_before_the_activations(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	m.again = 0;
	assert_cause(&m, "ACT_PEAK");
	m.first_model = 900 * MIB;
	assert_cause(&m, "FIRST_MODEL_GRAPH");
	assert_int_equal(confidence_of_cause(&m), 0);
	m.first_model = 0;
	assert_cause(&m, "ACT_PEAK");
	m.loss_network = 600 * MIB;
	assert_cause(&m, "LOSS_NETWORK_GRAPH");
	/* The backward pass is in the loss yet; then it has made gradients. */
	m.in_forward = 0;
	m.in_backward = 1;
	assert_cause(&m, "LOSS_NETWORK_GRAPH");
	m.first_model = 900 * MIB;
	assert_cause(&m, "LOSS_NETWORK_GRAPH");
	m.gradients = 10 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.gradients = m.in_backward = m.first_model = 0;
	m.in_forward = 1;
	/* The model drops nothing, and nearly all that it made is there. */
	m.evaluation_mode = 1;
	m.run_live = 1500 * MIB;
	m.run_born = 6 * GIB;
	assert_cause(&m, "LOSS_NETWORK_GRAPH");
	m.run_born = 2 * GIB;
	assert_cause(&m, "EVAL_MODE_GRAPH");
	assert_int_equal(confidence_of_cause(&m), 0);
	/* A later step tells more: its rules decide. */
	m.step = 3;
	assert_cause(&m, "ACT_PEAK");
}

/* One pass of 600 MiB waits, and the earlier call is that pass; three passes are micro-batches. */
static void micro_batches_are_no_earlier_call(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	m.passes_waiting = 1;
	m.waiting = 600 * MIB;
	assert_cause(&m, "EARLIER_CALL");
	m.passes_waiting = 3;
	m.waiting = 1200 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
	/* The job's own code calls the parts of one model in turn. */
	m.roots = 3;
	assert_cause(&m, "ACT_PEAK");
}

/* Three passes of 400 MiB wait, and one tensor alone is larger than they are together. */
static void one_tensor_outweighs_the_passes_that_wait(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.passes_waiting = 3;
	m.waiting = 1200 * MIB;
	m.huge_blocks = 1;
	m.huge = m.huge_sum = 1100 * MIB;
	assert_cause(&m, "LOSSES_SUMMED");
	m.huge = m.huge_sum = 1300 * MIB;
	assert_cause(&m, "HUGE_TENSORS");
}

/* Two tensors of 600 MiB are few, beside six of the layers' size, and not beside seven. */
static void a_few_tensors_are_few_with_those_of_the_layers(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = 600 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = 2;
	m.in_proportion = 6;
	assert_cause(&m, "HUGE_TENSORS");
	m.in_proportion = 7;
	assert_cause(&m, "ACT_PEAK");
}

/* Every step of four leaves 150 MiB. A line of which later steps free blocks may fill a queue. */
static void what_later_steps_take_may_be_a_queue(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 5;
	m.leak_steps = 4;
	m.leak_bytes = 600 * MIB;
	m.leak_consumed = 3;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	assert_int_equal(confidence_of_cause(&m), 2);
	m.leak_consumed = 4;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	assert_int_equal(confidence_of_cause(&m), 1);
}

/* 700 MiB are short, and the steps before had room without the 100 MiB that this step has more: of
 * the 150 MiB that they have left. */
static void a_step_lacks_what_it_has_more_than_those_before(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 5;
	m.requested = 800 * MIB;
	m.short_by = 700 * MIB;
	m.logits_block = m.requested;
	m.logits_blocks = 3;
	m.logits = 1600 * MIB;
	m.left = 150 * MIB;
	m.left_blocks = 15;
	assert_cause(&m, "LOGITS_SPIKE");
	m.size_growth = 100 * MIB;
	assert_cause(&m, "EARLIER_STEP_KEPT");
	m.size_growth = 160 * MIB;
	assert_cause(&m, "LOGITS_SPIKE");
}

/* A failure in an evaluation, which keeps 500 MiB of what it made. */
static struct metrics evaluation(bytes made)
{
	struct metrics m = failure();

	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.run_new = m.run_model = 100;
	m.run_live = 500 * MIB;
	m.run_born = made;
	m.run_blocks = 40;
	return m;
}

/* An evaluation keeps 500 MiB of the 600 MiB that it made, and earlier steps have left 400 MiB:
 * this step needs 300 MiB more than they did. */
static void what_earlier_steps_left_explains_an_evaluation(void **state)
{
	struct metrics m = evaluation(600 * MIB);

	(void)state;
	m.left = 400 * MIB;
	m.left_blocks = 40;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.size_growth = 300 * MIB;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

/* Of 900 MiB that an evaluation made 500 MiB are there, and 400 MiB of these are its results, the
 * logits: of the other 500 MiB it keeps 100 MiB. */
static void logits_of_an_evaluation_are_no_graph(void **state)
{
	struct metrics m = evaluation(900 * MIB);

	(void)state;
	m.size_growth = 450 * MIB;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.logits = 400 * MIB;
	m.logits_blocks = 2;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* What is live of an earlier step is its graph, or a graph is a part of it. */
static void a_graph_is_told_from_other_tensors_of_earlier_steps(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.left = 600 * MIB;
	m.left_now = 20 * MIB;
	m.left_blocks = 60;
	m.kept = 580 * MIB;
	m.passes_kept = 1;
	assert_cause(&m, "GRAPH_KEPT");
	m.kept = 400 * MIB;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

/* In the second step a library asks for 256 MiB more, and has two such blocks already. */
static void a_library_that_asks_again_is_not_starved(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.by_library = 1;
	m.reserved = 3 * GIB;
	m.cached = GIB;
	m.outside = GIB - 128 * MIB;
	m.library = 256 * MIB;
	m.library_blocks = 1;
	assert_cause(&m, "NCCL_STARVED_BY_CACHE");
	m.library = 512 * MIB;
	m.library_blocks = 2;
	assert_cause(&m, "LIBRARY_BLOCKS_KEPT");
}

/* A first forward pass, of a training perhaps: its layers keep their blocks. */
static void a_first_pass_is_no_inference(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = m.run_evaluates = 1;
	m.activations = 900 * MIB;
	m.unused_graph = 950 * MIB;
	m.graph_layers = 10;
	assert_cause(&m, "ACT_PEAK");
	m.inference = 1;
	assert_cause(&m, "INFERENCE_GRAPH");
}

/* Before the first backward pass, a function `predict` may be the training's own. */
static void passes_wait_in_a_function_of_any_name(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.step = m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.activations = 1500 * MIB;
	m.passes_waiting = 2;
	m.waiting = m.run_live = 900 * MIB;
	assert_int_equal(assert_cause(&m, "LOSSES_SUMMED"), 900 * MIB);
	assert_int_equal(confidence_of_cause(&m), 0);
	/* After a step, the name tells. */
	m.step = m.steps = 2;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

/* The first request behind the states is a temporary; or there are temporaries beside it. */
static void the_first_temporary_follows_the_states(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.in_backward = 0;
	m.in_optimizer = 1;
	m.optimizer_states = 600 * MIB;
	m.optimizer_temporaries = m.requested;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
	m.optimizer_temporaries = 2 * m.requested;
	assert_cause(&m, "OPT_FOREACH_TEMP");
}

/* Until something is trained, sizes that come twice may be those of two parts. */
static void a_reference_shows_by_what_is_trained(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	m.again_kept = 1;
	m.param_copies = 100 * MIB;
	assert_cause(&m, "EARLIER_CALL");
	m.gradients = 100 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
}

/* The second forward pass comes from another line than the first step's, and keeps all that it
 * makes: a graph, or one tensor beside what a pass of training has. */
static void one_tensor_explains_a_pass_of_another_place(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.step = m.steps = 1;
	m.activations = 1000 * MIB;
	m.run_live = m.run_born = 1800 * MIB;
	m.run_new = 98;
	m.run_model = 57;
	m.run_blocks = 48;
	m.huge = 300 * MIB;
	m.huge_sum = 600 * MIB;
	m.huge_blocks = 2;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.huge = m.huge_sum = 800 * MIB;
	m.huge_blocks = 1;
	assert_cause(&m, "HUGE_TENSORS");
	/* A name that speaks of evaluation is surer. */
	m.run_evaluates = 1;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
}

/* Names tell what nothing else does in a first pass: a teacher, or a generator in its
 * discriminator's step. */
static void names_tell_what_is_not_trained(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	m.again = 0;
	m.teacher_graph = 700 * MIB;
	assert_int_equal(assert_cause(&m, "TEACHER_GRAPH"), 700 * MIB);
	m.teacher_graph = 400 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.generator_graph = 500 * MIB;
	assert_int_equal(assert_cause(&m, "GENERATOR_GRAPH"), 500 * MIB);
	/* Another model's blocks are little of all. */
	m.generator_graph = 300 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* An update of PPO may call the function that acts, in one pass. */
static void a_rollout_has_several_passes(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	m.again = 0;
	m.rollout_graph = 900 * MIB;
	m.passes = 1;
	assert_cause(&m, "ACT_PEAK");
	m.passes = 16;
	assert_int_equal(assert_cause(&m, "ROLLOUT_GRAPH"), 900 * MIB);
}

/* float64 explains half of all, if nothing else does. */
static void a_type_comes_before_the_activations(void **state)
{
	struct metrics m = two_calls();

	(void)state;
	m.again = 0;
	m.float64_layers = 4;
	assert_cause(&m, "DOUBLE_FROM_THE_START");
	m.huge = m.huge_sum = 1300 * MIB; /* more than half of the peak */
	m.huge_blocks = 1;
	assert_cause(&m, "HUGE_TENSORS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_tell_what_is_not_trained),
		cmocka_unit_test(a_rollout_has_several_passes),
		cmocka_unit_test(a_type_comes_before_the_activations),
		cmocka_unit_test(an_earlier_call_comes_before_the_activations),
		cmocka_unit_test(a_model_that_may_not_be_trained_comes_before_the_activations),
		cmocka_unit_test(micro_batches_are_no_earlier_call),
		cmocka_unit_test(one_tensor_outweighs_the_passes_that_wait),
		cmocka_unit_test(a_few_tensors_are_few_with_those_of_the_layers),
		cmocka_unit_test(what_later_steps_take_may_be_a_queue),
		cmocka_unit_test(a_step_lacks_what_it_has_more_than_those_before),
		cmocka_unit_test(what_earlier_steps_left_explains_an_evaluation),
		cmocka_unit_test(logits_of_an_evaluation_are_no_graph),
		cmocka_unit_test(a_graph_is_told_from_other_tensors_of_earlier_steps),
		cmocka_unit_test(a_library_that_asks_again_is_not_starved),
		cmocka_unit_test(a_first_pass_is_no_inference),
		cmocka_unit_test(passes_wait_in_a_function_of_any_name),
		cmocka_unit_test(the_first_temporary_follows_the_states),
		cmocka_unit_test(a_reference_shows_by_what_is_trained),
		cmocka_unit_test(one_tensor_explains_a_pass_of_another_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
