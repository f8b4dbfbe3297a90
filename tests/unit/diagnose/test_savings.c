/* What a remedy saves: a figure, or a bound. */
#include "choice.h"

static size_t remedy_count(struct metrics *m, const char *rule)
{
	struct rank rank = { .end = END_OOM, .metrics = m };
	struct report report = { .ranks = &rank, .count = 1 };
	struct diagnosis d = { 0 };
	size_t count;

	diagnose(&d, &report);
	assert_non_null(diagnosis_cause(&d, 0));
	assert_string_equal(diagnosis_cause(&d, 0)->rule, rule);
	count = diagnosis_cause(&d, 0)->remedy_count;
	diagnosis_release(&d);
	return count;
}

/* Asserts the cause, and the action of its remedy of that number. */
static void assert_action(struct metrics *m, const char *rule, size_t number, const char *begin)
{
	struct rank rank = { .end = END_OOM, .metrics = m };
	struct report report = { .ranks = &rank, .count = 1 };
	struct diagnosis d = { 0 };
	const struct finding *cause;

	diagnose(&d, &report);
	cause = diagnosis_cause(&d, 0);
	assert_non_null(cause);
	assert_string_equal(cause->rule, rule);
	assert_true(number < cause->remedy_count);
	assert_memory_equal(cause->remedies[number].action, begin, strlen(begin));
	diagnosis_release(&d);
}

/* A buffer of observations belongs to no graph. */
static void what_the_job_stores_goes_to_the_host(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 40;
	m.leak_bytes = 800 * MIB;
	m.leak_steps = 39;
	m.leak_stored = 700 * MIB;
	assert_action(&m, "LEAK_GRAPH_RETAINED", 0, "keep numbers, not tensors");
	m.leak_stored = 790 * MIB;
	assert_action(&m, "LEAK_GRAPH_RETAINED", 0, "store it in host memory");
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 800 * MIB);
	/* It failed before this step had stored all of its own. */
	m.leak_storing = 1;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 800 * MIB);
}

/* The first backward pass has made 300 of 600 MiB of gradients, each beside its bucket; a later one
 * may have zeroed them. */
static void buckets_save_all_gradients(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.buckets = 600 * MIB;
	m.beside_buckets = 300 * MIB;
	m.gradient = 20 * MIB;
	assert_saving(&m, "DDP_BUCKET_DUP", SAVING_ABOUT, 580 * MIB);
	m.step = m.steps = 2;
	assert_saving(&m, "DDP_BUCKET_DUP", SAVING_ABOUT, 280 * MIB);
}

/* Two optimizers have 800 MiB too many; the first may have had more beside its states. */
static void states_of_two_optimizers_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.second_states = 800 * MIB;
	assert_saving(&m, "SECOND_OPTIMIZER", SAVING_AT_LEAST, 800 * MIB);
}

/* Half of 2304 MiB, but for a workspace of 32 MiB, which has no type. With activations of half of
 * it, a kernel of the smaller type may save more. */
static void a_workspace_has_no_type(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.widened = m.parameters = 400 * MIB;
	m.whole_measured = 1;
	assert_saving(&m, "DOUBLE_PRECISION", SAVING_AT_LEAST, 1152 * MIB);
	m.activations = 900 * MIB;
	assert_saving(&m, "DOUBLE_PRECISION", SAVING_ABOUT, 1152 * MIB);
	m.workspaces = 32 * MIB;
	assert_saving(&m, "DOUBLE_PRECISION", SAVING_ABOUT, 1136 * MIB);
	m.workspaces = 512 * MIB;
	assert_saving(&m, "DOUBLE_PRECISION", SAVING_AT_LEAST, 896 * MIB);
	m.workspaces = 0;
	m.size_growth = 100 * MIB;
	assert_saving(&m, "DOUBLE_PRECISION", SAVING_AT_LEAST, 1152 * MIB);
}

/* 900 MiB of logits, and 200 MiB that the loss still needs. In a training step that is all; in
 * another pass more may follow, and one behind the steps needs them beside its growth alone. */
static void logits_beyond_the_steps_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 1;
	m.in_backward = 0;
	m.in_forward = 1;
	m.logits_blocks = 3;
	m.logits = 1200 * MIB;
	m.without_logits = 900 * MIB;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_AT_FAILURE, 900 * MIB);
	m.whole_need = 2600 * MIB;
	m.loss_to_come = 200 * MIB;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 1100 * MIB);
	/* What a loss of the job's own does with them is unknown. */
	m.loss_is_own = 1;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_AT_LEAST, 1100 * MIB);
	assert_int_equal(remedy_of(&m, "LOGITS_SPIKE", 1).bound, SAVING_AT_LEAST);
	m.step = m.steps = 4;
	m.loss_is_own = m.loss_to_come = 0;
	m.tags |= TAGGED(OPTIMIZER);
	m.whole_measured = 1;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 900 * MIB);
	m.size_growth = 500 * MIB;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_AT_LEAST, 500 * MIB);
	/* A derivative within the loss, perhaps, and no step before. */
	m.tags = 0;
	m.in_backward = 1;
	m.in_forward = 0;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 900 * MIB);
}

/* Each rank of a data parallel job makes all of the states. */
static void states_of_a_first_step_can_be_sharded(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_optimizer = m.request_is_state = m.step = m.died = 1;
	m.optimizer_states = 400 * MIB;
	m.parameters = 700 * MIB;
	m.data_parallel = 1;
	assert_action(&m, "OPT_FIRST_STEP_JUMP", 1,
		      "torch.distributed.optim.ZeroRedundancyOptimizer");
	m.tags = TAGGED(FSDP);
	assert_int_equal(remedy_count(&m, "OPT_FIRST_STEP_JUMP"), 1);
}

/* In the first step, the rest of it may need more, with the remedy and without; the steps before a
 * later one tell both. */
static void without_a_whole_step_the_saving_is_of_the_failure(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.huge = 600 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = 2;
	m.without_huge = 1100 * MIB;
	m.step = m.steps = 1;
	assert_saving(&m, "HUGE_TENSORS", SAVING_AT_FAILURE, 1100 * MIB);
	m.step = m.steps = 2;
	m.whole_measured = 1;
	assert_saving(&m, "HUGE_TENSORS", SAVING_ABOUT, 1100 * MIB);
}

/* An evaluation that failed needs at least what it had beyond the steps; these alone need the rest,
 * with the remedy too. */
static void an_evaluation_counts_beyond_the_steps(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.run_repeats = 8;
	m.run_repeat_bytes = m.run_live = m.run_born = 800 * MIB;
	m.size_growth = 300 * MIB;
	assert_saving(&m, "EVAL_ACCUMULATION", SAVING_AT_LEAST, 300 * MIB);
	/* One result of eight is needed. */
	m.size_growth = 750 * MIB;
	assert_saving(&m, "EVAL_ACCUMULATION", SAVING_AT_LEAST, 700 * MIB);
	m.step = 1;
	assert_saving(&m, "EVAL_ACCUMULATION", SAVING_AT_FAILURE, 700 * MIB);
}

/* A larger batch would have grown on: by how much is unknown. */
static void a_step_that_grew_needs_at_least_its_growth(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 5;
	m.size_ratio = 200;
	m.size_growth = 400 * MIB;
	m.batch_growth = 900 * MIB;
	assert_saving(&m, "BATCH_OUTLIER", SAVING_AT_LEAST, 400 * MIB);
}

/* Which blocks will stay shows after a few steps. */
static void blocks_of_few_steps_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.left = 600 * MIB;
	m.left_steps = 3;
	assert_saving(&m, "EARLIER_STEP_KEPT", SAVING_AT_LEAST, 600 * MIB);
	m.left_steps = 4;
	assert_saving(&m, "EARLIER_STEP_KEPT", SAVING_ABOUT, 600 * MIB);
}

/* 600 MiB of parameters in one vector: its gradient is theirs. */
static void a_vector_of_all_weights_has_their_gradients(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.whole_measured = 1;
	m.huge = 600 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = 2;
	m.without_huge = 1100 * MIB;
	m.parameters = 700 * MIB;
	assert_saving(&m, "HUGE_TENSORS", SAVING_ABOUT, 1100 * MIB);
	m.parameters = 601 * MIB;
	assert_saving(&m, "HUGE_TENSORS", SAVING_AT_FAILURE, 1100 * MIB);
}

/* Half the batch halves 1024 MiB of activations and the request of 256 MiB: 640 MiB. The
 * optimizer's step has no batch: it needs 500 MiB less than the whole. */
static void half_a_batch_leaves_the_optimizers_step(void **state)
{
	struct metrics m = failure();
	struct remedy half;

	(void)state;
	m.step = 1;
	half = remedy_of(&m, "ACT_PEAK", 1);
	assert_int_equal(half.bound, SAVING_AT_FAILURE);
	assert_int_equal(half.saving, 640 * MIB);
	m.step = 2;
	m.whole_measured = 1;
	m.moment_need = 2304 * MIB;
	m.whole_need = m.whole_pass = 2400 * MIB;
	half = remedy_of(&m, "ACT_PEAK", 1);
	assert_int_equal(half.bound, SAVING_ABOUT);
	assert_int_equal(half.saving, 640 * MIB);
	m.whole_optimizer = 1900 * MIB;
	assert_int_equal(remedy_of(&m, "ACT_PEAK", 1).saving, 500 * MIB);
	/* The pass had got to 77 % of what it needs. */
	m.whole_need = m.whole_pass = 3000 * MIB;
	half = remedy_of(&m, "ACT_PEAK", 1);
	assert_int_equal(half.bound, SAVING_AT_LEAST);
	assert_int_equal(half.saving, 640 * MIB);
}

/* Data of which a part was still to come. */
static void data_in_the_making_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.data = 900 * MIB;
	m.data_blocks = 9;
	assert_saving(&m, "DATA_ON_GPU", SAVING_ABOUT, 900 * MIB);
	m.data_beside = 500 * MIB;
	assert_saving(&m, "DATA_ON_GPU", SAVING_ABOUT, 1400 * MIB);
	m.data_asked = 1;
	assert_saving(&m, "DATA_ON_GPU", SAVING_AT_LEAST, 1400 * MIB);
}

/* Weights and Adam's states in one file: the optimizer takes the states as they are, so without the
 * checkpoint on the GPU they would be there too. */
static void states_of_a_checkpoint_are_no_duplicate(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.parameters = 300 * MIB;
	m.loaded = m.without_loaded = 900 * MIB;
	assert_saving(&m, "RESUME_DUPLICATE_STATE", SAVING_AT_LEAST, 300 * MIB);
	m.loaded_states = 600 * MIB;
	assert_saving(&m, "RESUME_DUPLICATE_STATE", SAVING_ABOUT, 900 * MIB);
	m.loaded_states = 0;
	m.loaded = m.without_loaded = 300 * MIB;
	assert_saving(&m, "RESUME_DUPLICATE_STATE", SAVING_ABOUT, 300 * MIB);
}

/* Three steps have left 200 MiB each. Of a graph, this step's own is part of what a whole step
 * needs. */
static void graphs_of_a_few_steps_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.leak_bytes = 600 * MIB;
	m.leak_steps = 3;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 600 * MIB);
	m.kept = 500 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 600 * MIB);
	/* The job's own code stores a tenth of it in each step, and the graph that made it. */
	m.leak_stored = 600 * MIB;
	m.leak_steps = 9;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 600 * MIB);
	m.leak_steps = 10;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 600 * MIB);
}

/* Three steps have left 600 MiB of graphs. This step's own will be there beside its gradients,
 * which are at most as large as the parameters. */
static void little_weights_add_little_to_graphs(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.leak_bytes = 600 * MIB;
	m.kept = 500 * MIB;
	m.leak_steps = 3;
	m.parameters = 61 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 600 * MIB);
	m.parameters = 59 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 600 * MIB);
	/* Of nothing but three graphs. */
	m.kept = 560 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 600 * MIB);
	m.kept = 500 * MIB;
	/* The base has no gradients. */
	m.tags = TAGGED(ADAPTER);
	m.parameters = 700 * MIB;
	m.adapters = 5 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 600 * MIB);
}

/* Without a trace of an optimizer, what looks like two steps may be two micro-batches of one, which
 * has more. */
static void passes_of_one_step_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.passes_kept = 1;
	m.kept = 700 * MIB;
	m.pass_newest = 300 * MIB;
	m.parameters = 50 * MIB;
	assert_saving(&m, "GRAPH_KEPT", SAVING_AT_LEAST, 700 * MIB);
	m.tags = TAGGED(OPTIMIZER);
	assert_saving(&m, "GRAPH_KEPT", SAVING_ABOUT, 700 * MIB);
	/* The step before has left another one behind its end. */
	m.left_behind = 600 * MIB;
	assert_saving(&m, "GRAPH_KEPT", SAVING_ABOUT, 1300 * MIB);
	m.left_behind = 0;
	/* Four passes in two steps: the third one has two. */
	m.step = 3;
	m.passes_kept = 4;
	assert_saving(&m, "GRAPH_KEPT", SAVING_AT_LEAST, 700 * MIB);
	m.passes_kept = 2;
	assert_saving(&m, "GRAPH_KEPT", SAVING_ABOUT, 700 * MIB);
	m.parameters = 200 * MIB;
	assert_saving(&m, "GRAPH_KEPT", SAVING_AT_LEAST, 700 * MIB);
	/* One of seven passes is this step's own. */
	m.in_backward = 0;
	m.in_optimizer = 1;
	m.passes_kept = 7;
	assert_saving(&m, "GRAPH_KEPT", SAVING_AT_LEAST, 600 * MIB);
}

static void gradients_of_one_step_are_the_least(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.leak_bytes = m.leak_autograd = m.gradients = 800 * MIB;
	m.leak_steps = 4;
	assert_saving(&m, "GRADIENTS_KEPT", SAVING_AT_LEAST, 800 * MIB);
	m.tags = TAGGED(OPTIMIZER);
	assert_saving(&m, "GRADIENTS_KEPT", SAVING_ABOUT, 800 * MIB);
}

/* If the steps before had less than half of what is saved, the step needs as much more as it has
 * grown; they do not tell what was still to come. */
static void steps_do_not_tell_of_one_that_has_grown(void **state)
{
	struct metrics m = failure();
	struct remedy half;

	(void)state;
	m.moment_need = m.whole_need = 2304 * MIB;
	m.whole_measured = 1;
	m.huge = 600 * MIB;
	m.huge_sum = 1200 * MIB;
	m.huge_blocks = 2;
	m.without_huge = 1100 * MIB;
	m.size_growth = 500 * MIB;
	assert_saving(&m, "HUGE_TENSORS", SAVING_ABOUT, 1100 * MIB);
	m.size_growth = 900 * MIB;
	assert_saving(&m, "HUGE_TENSORS", SAVING_AT_LEAST, 900 * MIB);
	m.size_growth = 1200 * MIB;
	assert_saving(&m, "HUGE_TENSORS", SAVING_AT_LEAST, 1100 * MIB);
	m.huge = m.huge_sum = m.huge_blocks = 0;
	half = remedy_of(&m, "ACT_PEAK", 1);
	assert_int_equal(half.bound, SAVING_AT_LEAST);
	assert_int_equal(half.saving, 640 * MIB);
}

/* Half the batch halves 1024 MiB of activations, the request of 256 and the 400 that the job's own
 * code made in the forward pass: 840 MiB. */
static void half_a_batch_halves_the_jobs_own_tensors(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = 1;
	m.batch_inputs = 400 * MIB;
	assert_int_equal(remedy_of(&m, "ACT_PEAK", 1).saving, 840 * MIB);
}

/* The switch that a library has for it comes before a call of PyTorch's; Liger's kernels are there
 * for some models only. */
static void remedies_are_spelled_as_the_framework_does(void **state)
{
	struct metrics m = failure();

	(void)state;
	assert_action(
		&m, "ACT_PEAK", 0,
		"torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) around each layer");
	m.tags = TAGGED(TRANSFORMERS);
	assert_action(&m, "ACT_PEAK", 0, "model.gradient_checkpointing_enable()");
	m.tags |= TAGGED(ADAPTER);
	assert_action(
		&m, "ACT_PEAK", 0,
		"model.gradient_checkpointing_enable(), and model.enable_input_require_grads() for a base that is frozen");
	m.tags = TAGGED(TRANSFORMERS) | TAGGED(TRAINER);
	assert_action(&m, "ACT_PEAK", 0, "gradient_checkpointing=True");
	m.logits_block = 300 * MIB;
	m.logits_blocks = 4;
	m.logits = 1200 * MIB;
	assert_action(
		&m, "LOGITS_SPIKE", 0,
		"compute head and loss in eight chunks of the sequence, or a fused linear cross-entropy");
	m.tags |= TAGGED(LIGER);
	assert_action(&m, "LOGITS_SPIKE", 0, "use_liger_kernel=True");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_job_stores_goes_to_the_host),
		cmocka_unit_test(states_of_a_first_step_can_be_sharded),
		cmocka_unit_test(buckets_save_all_gradients),
		cmocka_unit_test(states_of_two_optimizers_are_the_least),
		cmocka_unit_test(a_workspace_has_no_type),
		cmocka_unit_test(logits_beyond_the_steps_are_the_least),
		cmocka_unit_test(without_a_whole_step_the_saving_is_of_the_failure),
		cmocka_unit_test(an_evaluation_counts_beyond_the_steps),
		cmocka_unit_test(a_step_that_grew_needs_at_least_its_growth),
		cmocka_unit_test(blocks_of_few_steps_are_the_least),
		cmocka_unit_test(half_a_batch_leaves_the_optimizers_step),
		cmocka_unit_test(little_weights_add_little_to_graphs),
		cmocka_unit_test(passes_of_one_step_are_the_least),
		cmocka_unit_test(gradients_of_one_step_are_the_least),
		cmocka_unit_test(steps_do_not_tell_of_one_that_has_grown),
		cmocka_unit_test(a_vector_of_all_weights_has_their_gradients),
		cmocka_unit_test(half_a_batch_halves_the_jobs_own_tensors),
		cmocka_unit_test(data_in_the_making_are_the_least),
		cmocka_unit_test(graphs_of_a_few_steps_are_the_least),
		cmocka_unit_test(states_of_a_checkpoint_are_no_duplicate),
		cmocka_unit_test(remedies_are_spelled_as_the_framework_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
