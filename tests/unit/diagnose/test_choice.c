/* Which of several causes that hold is chosen. */
#include "choice.h"

/* Two models; a call from a line that no step had before is none of the reference's, which every
 * step calls. */
static void a_new_call_is_not_the_references(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.twin = 100 * MIB;
	m.again = 800 * MIB;
	/* Both calls are of the model that is trained, from two lines: a reference that had a graph
	 * in the first step would have gradients of that, which no optimizer drops. */
	m.gradients = 40 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.gradients = 60 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.again_was_new = 1;
	assert_cause(&m, "GRAPH_UNUSED");
	m.again_is_new = 1;
	m.again_was_new = 0;
	assert_cause(&m, "FORWARD_REPEATED");
	/* In the first step each line is new. */
	m.step = m.steps = 1;
	m.gradients = 0;
	assert_cause(&m, "REFERENCE_GRAPH");
	/* The later call is under no_grad(): the earlier one is the model that is trained. */
	m.again_freed = 1;
	assert_cause(&m, "ACT_PEAK");
}

static void adapters_have_a_frozen_base(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(ADAPTER);
	m.adapters = 10 * MIB;
	m.gradients = 12 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.gradients = 300 * MIB;
	m.parameters = 600 * MIB;
	assert_int_equal(assert_cause(&m, "BASE_TRAINED"), 290 * MIB);
}

/* In the forward pass there are no gradients, but the states of a base of 190 MiB. */
static void a_base_that_has_states_is_trained(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(ADAPTER);
	m.in_backward = 0;
	m.in_forward = 1;
	m.step = m.steps = 3;
	m.adapters = 10 * MIB;
	m.optimizer_states = 60 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.optimizer_states = 400 * MIB;
	assert_int_equal(assert_cause(&m, "BASE_TRAINED"), 380 * MIB);
	/* A head alone has them. */
	m.optimizer_states = 200 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* Nearly all of such a job has half the size in the other type. */
static void widened_parameters_are_a_cause(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.widened = 150 * MIB;
	assert_int_equal(assert_cause(&m, "ACT_PEAK"), SAVING_UNKNOWN);
	m.parameters = m.widened = 400 * MIB;
	assert_int_equal(assert_cause(&m, "DOUBLE_PRECISION"), GIB + 128 * MIB);
	m.whole_need = 3 * GIB;
	assert_int_equal(assert_cause(&m, "DOUBLE_PRECISION"), GIB + GIB / 2);
	/* Half of them are converted, and count as copies of the others; or they are copies. */
	m.param_copies = 390 * MIB;
	assert_cause(&m, "DOUBLE_PRECISION");
	m.parameters = 900 * MIB;
	assert_cause(&m, "SECOND_MODEL");
	m.param_copies = 0;
	/* All of a small model, of which the activations are most. */
	m.parameters = m.widened = 4 * MIB;
	assert_cause(&m, "DOUBLE_PRECISION");
	m.widened = 3 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* A line makes many tensors, and no model is called between them: no results. */
static void results_have_a_call_between(void **state)
{
	struct metrics m = failure_in_forward();
	int confidence;

	(void)state;
	m.run_repeats = 20;
	m.run_repeat_bytes = m.run_live = m.run_born = 800 * MIB;
	assert_cause(&m, "EVAL_ACCUMULATION");
	/* The layers of one call have as many blocks of another line: a graph, perhaps. */
	confidence = confidence_of_cause(&m);
	m.run_repeat_stacks = 5;
	assert_int_equal(confidence_of_cause(&m), confidence - 1);
	m.run_repeat_stacks = 1;
	/* Or one line has several layers of each of three calls. */
	m.run_calls = 3;
	assert_int_equal(confidence_of_cause(&m), confidence - 1);
	m.run_calls = 20;
	assert_int_equal(confidence_of_cause(&m), confidence);
	/* Or the place has a part of what the run keeps. */
	m.run_repeat_bytes = 300 * MIB;
	m.run_live = 900 * MIB;
	m.run_born = 2 * GIB;
	assert_int_equal(confidence_of_cause(&m), confidence - 1);
	m.data = 800 * MIB;
	m.data_blocks = 20;
	assert_cause(&m, "DATA_ON_GPU");
}

/* Without a trace of an optimizer, a backward pass may add to the gradients of the one before. */
static void gradients_of_no_optimizer_may_be_accumulated(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.old_gradients = m.gradients = m.without_old_gradients = 300 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.in_forward = 1;
	assert_cause(&m, "GRADS_HELD_IN_FORWARD");
	m.in_forward = 0;
	m.tags = TAGGED(OPTIMIZER);
	assert_cause(&m, "GRADS_HELD_IN_FORWARD");
}

/* A target network runs under no_grad() in each micro-batch, also of the first step. */
static void a_first_step_with_no_grad_is_no_evaluation(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.step = 1;
	m.steps = 0;
	m.passes_waiting = 2;
	m.waiting = 600 * MIB;
	assert_int_equal(assert_cause(&m, "LOSSES_SUMMED"), 600 * MIB);
	assert_int_equal(confidence_of_cause(&m), 1);
	/* A name that speaks of evaluation makes it less sure. */
	m.run_evaluates = 1;
	assert_int_equal(assert_cause(&m, "LOSSES_SUMMED"), 600 * MIB);
	assert_int_equal(confidence_of_cause(&m), 0);
}

/* Some outputs of an earlier pass are no graph, of which all layers are there. */
static void some_outputs_are_no_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.kept = m.left = 448 * MIB;
	m.passes_kept = 1;
	m.pass_newest = 950 * MIB;
	m.kept_stacks = 4;
	m.model_stacks = 15;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 448 * MIB);
	m.kept_stacks = 5;
	assert_int_equal(assert_cause(&m, "GRAPH_KEPT"), 448 * MIB);
}

/* What this step has left already counts for what is short. */
static void the_newest_step_leaves_tensors_too(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.short_by = 200 * MIB;
	m.left = 120 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.left_now = m.left_behind = 100 * MIB;
	m.left_steps = 4;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 220 * MIB);
	/* It may be the successor of what a step before has left. */
	m.left_steps = 3;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 120 * MIB);
	/* What it needs itself, it has without the fault too. */
	m.left_behind = 0;
	assert_int_equal(assert_cause(&m, "EARLIER_STEP_KEPT"), 120 * MIB);
}

/* A layer or two of an evaluation have most of what they made, with a graph and without. */
static void the_first_layer_of_an_evaluation_shows_no_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.run_new = m.run_model = 90;
	m.run_live = m.size_growth = 600 * MIB;
	m.run_born = 700 * MIB;
	m.run_blocks = 4;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	/* Four blocks are all of a model of four layers, whose training step has stacks of its own.
	 */
	m.model_stacks = 8;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.model_stacks = 24;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_blocks = 40;
	m.run_evaluates = 1;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	/* A batch of four times the size, of which the first layer has most; unless there are as
	 * many blocks as the model has lines. */
	m.run_size_ratio = 400;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.run_blocks = 20;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_blocks = 40;
	m.run_size_ratio = 0;
	/* A second training loop, whose caller is new, keeps its activations as the first one did.
	 */
	m.data = 500 * MIB;
	m.data_blocks = 1;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.run_evaluates = 0;
	assert_int_equal(assert_cause(&m, "DATA_ON_GPU"), 500 * MIB);
}

/* Without a backward pass, four passes that wait may be those of predict(). */
static void predictions_are_not_summed(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.in_forward = m.step = 1;
	m.waiting = 700 * MIB;
	m.passes_waiting = 3;
	m.activations = 850 * MIB;
	m.unused_graph = 900 * MIB;
	m.graph_layers = 10;
	assert_int_equal(assert_cause(&m, "LOSSES_SUMMED"), 700 * MIB);
	m.run_evaluates = 1;
	assert_int_equal(assert_cause(&m, "INFERENCE_GRAPH"), 810 * MIB);
	m.twin = 100 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* In the first step, a second group of parameters, or a second optimizer, may have no states yet
 * when the first one's temporary blocks are refused. */
static void the_first_optimizer_step_shows_not_what_has_no_state(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = m.request_is_state = 1;
	m.step = m.steps = 1;
	m.gradients = m.optimizer_states = 300 * MIB;
	m.unstepped = 280 * MIB;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
	m.request_is_state = 0;
	m.optimizer_temporaries = 200 * MIB;
	assert_cause(&m, "OPT_FOREACH_TEMP");
	m.step = m.steps = 2;
	assert_int_equal(assert_cause(&m, "GRADIENTS_UNUSED"), 280 * MIB);
}

/* A type of twice the size costs half of what has it. Sizes alone tell of it: what is out of
 * proportion comes first. */
static void tensors_of_twice_the_size_are_a_cause(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = m.doubled_block = 300 * MIB;
	m.huge_sum = m.doubled = 1200 * MIB;
	m.huge_blocks = m.doubled_blocks = 4;
	assert_cause(&m, "HUGE_TENSORS");
	m.huge_blocks = 9;
	assert_int_equal(assert_cause(&m, "ACT_UPCAST"), 600 * MIB);
}

/* Adapters below the size from which blocks have stacks: their tag is on the stacks. */
static void small_adapters_have_a_base_too(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.gradients = 300 * MIB;
	m.tags = TAGGED(ADAPTER);
	assert_int_equal(assert_cause(&m, "BASE_TRAINED"), 300 * MIB);
}

/* A resumed job has 600 MiB of states in its first step, which a new one has from its second step
 * on.
 */
static void states_of_a_checkpoint_may_be_needed_anyway(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.loaded_states = m.optimizer_states = 600 * MIB;
	assert_cause(&m, "RESUME_EAGER_OPT_STATE");
	assert_int_equal(confidence_of_cause(&m), 0);
	/* What a step can do without comes first. */
	m.logits = 800 * MIB;
	m.logits_blocks = 4;
	m.logits_block = 200 * MIB;
	assert_cause(&m, "LOGITS_SPIKE");
}

/* One line of the job's own code has made most of what is there before the first step: perhaps a
 * model of its own, perhaps data. */
static void one_line_of_the_set_up_is_not_surely_the_model(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = m.in_backward = 0;
	m.in_setup = 1;
	m.activations = 0;
	m.parameters = 1900 * MIB;
	assert_cause(&m, "STATIC_OVER_BUDGET");
	m.setup_line = 1900 * MIB;
	m.setup_blocks = 400;
	assert_cause(&m, "DATA_IN_SETUP");
	assert_true(confidence_of_cause(&m) < 2);
	m.setup_line = 900 * MIB;
	assert_cause(&m, "STATIC_OVER_BUDGET");
}

/* A line of the job's own code has made 1400 MiB, and nearly as much is free in pieces. */
static void pieces_come_before_data_of_the_set_up(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = m.in_backward = 0;
	m.in_setup = 1;
	m.activations = m.parameters = 0;
	m.setup_line = 1400 * MIB;
	m.setup_blocks = 11;
	assert_cause(&m, "DATA_IN_SETUP");
	m.cached = 1300 * MIB;
	m.has_largest_free = 1;
	m.largest_free = 200 * MIB;
	assert_cause(&m, "FRAG_EXTERNAL");
}

/* The backward pass asks for a gradient of an embedding, as large as its table. */
static void a_gradient_is_no_huge_temporary(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = m.huge_sum = m.requested = 1000 * MIB;
	m.huge_blocks = 1;
	m.parameters = 1900 * MIB;
	m.activations = m.outside = 0;
	m.static_percent = 95;
	assert_cause(&m, "HUGE_TENSORS");
	m.request_is_gradient = 1;
	assert_cause(&m, "STATIC_OVER_BUDGET");
}

/* The step needs 600 MiB more than it got to, and NCCL has 512 MiB. */
static void buffers_of_nccl_are_no_cause_if_the_step_lacks_more(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.activations = 400 * MIB;
	m.nccl = 512 * MIB;
	assert_cause(&m, "NCCL_BUFFERS");
	assert_int_equal(confidence_of_cause(&m), 0);
	m.activations = GIB;
	assert_cause(&m, "ACT_PEAK");
	m.nccl = 1200 * MIB;
	assert_cause(&m, "NCCL_BUFFERS");
	m.whole_measured = 1;
	m.moment_need = 2 * GIB + 256 * MIB;
	m.whole_need = m.moment_need + 1200 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* Of an optimizer's states, load_state_dict() makes no copy: of 600 MiB beside 200 MiB of
 * parameters, 200 MiB are surely not needed. */
static void loaded_states_may_be_in_use(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.loaded = m.without_loaded = 600 * MIB;
	assert_int_equal(assert_cause(&m, "RESUME_DUPLICATE_STATE"), 200 * MIB);
	m.optimizer_states = 400 * MIB;
	assert_int_equal(assert_cause(&m, "RESUME_DUPLICATE_STATE"), 600 * MIB);
}

/* What is asked for joins what 40 steps have left. */
static void what_steps_left_is_no_data(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 40;
	m.data = 900 * MIB;
	m.data_blocks = m.data_asked = 1;
	assert_cause(&m, "DATA_ON_GPU");
	m.leak_bytes = 800 * MIB;
	m.leak_steps = 39;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

static void modules_that_peft_saves_are_trained_whole(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(ADAPTER);
	m.adapters = 10 * MIB;
	m.gradients = 310 * MIB;
	m.parameters = 600 * MIB;
	assert_cause(&m, "BASE_TRAINED");
	m.tags |= TAGGED(SAVED_MODULES);
	assert_int_equal(assert_cause(&m, "MODULES_TO_SAVE"), 300 * MIB);
	/* A small head of a classifier is meant. */
	m.gradients = 60 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

static void a_step_without_checkpointing_keeps_more_than_those_before(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.saw_recompute = 1;
	m.unchecked = 900 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.size_growth = 700 * MIB;
	assert_int_equal(assert_cause(&m, "RECOMPUTE_STOPPED"), 700 * MIB);
	/* An evaluation runs without checkpointing anyway. */
	m.in_backward = 0;
	m.in_forward = 1;
	m.run_new = 80;
	assert_cause(&m, "ACT_PEAK");
}

/* One unit of 800 MiB in 16 bits: shards of two ranks in 32 bits have that size as well. */
static void one_unit_of_fsdp_is_reduced_whole(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(FSDP);
	m.world_size = 2;
	m.sharded = m.parameters = m.fsdp_unit = 800 * MIB;
	m.unit_copies = 1600 * MIB;
	assert_cause(&m, "FSDP_REDUCE_COARSE");
	/* Units of blocks are small beside the model. */
	m.fsdp_unit = 100 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_call_is_not_the_references),
		cmocka_unit_test(adapters_have_a_frozen_base),
		cmocka_unit_test(a_base_that_has_states_is_trained),
		cmocka_unit_test(widened_parameters_are_a_cause),
		cmocka_unit_test(results_have_a_call_between),
		cmocka_unit_test(a_first_step_with_no_grad_is_no_evaluation),
		cmocka_unit_test(some_outputs_are_no_graph),
		cmocka_unit_test(the_newest_step_leaves_tensors_too),
		cmocka_unit_test(the_first_layer_of_an_evaluation_shows_no_graph),
		cmocka_unit_test(predictions_are_not_summed),
		cmocka_unit_test(the_first_optimizer_step_shows_not_what_has_no_state),
		cmocka_unit_test(tensors_of_twice_the_size_are_a_cause),
		cmocka_unit_test(small_adapters_have_a_base_too),
		cmocka_unit_test(gradients_of_no_optimizer_may_be_accumulated),
		cmocka_unit_test(states_of_a_checkpoint_may_be_needed_anyway),
		cmocka_unit_test(one_line_of_the_set_up_is_not_surely_the_model),
		cmocka_unit_test(pieces_come_before_data_of_the_set_up),
		cmocka_unit_test(a_gradient_is_no_huge_temporary),
		cmocka_unit_test(buffers_of_nccl_are_no_cause_if_the_step_lacks_more),
		cmocka_unit_test(loaded_states_may_be_in_use),
		cmocka_unit_test(what_steps_left_is_no_data),
		cmocka_unit_test(modules_that_peft_saves_are_trained_whole),
		cmocka_unit_test(a_step_without_checkpointing_keeps_more_than_those_before),
		cmocka_unit_test(one_unit_of_fsdp_is_reduced_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
