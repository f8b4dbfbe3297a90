/* Hooks, layers and steps that store tensors, and a table's gradient. */
#include "choice.h"

/* 600 MiB in a forward pass behind the steps. */
static struct metrics behind_the_steps(void)
{
	struct metrics m = failure();

	m.in_backward = 0;
	m.in_forward = m.in_evaluation = 1;
	m.steps = 3;
	m.step = 3;
	m.run_new = 90;
	m.run_model = 90;
	m.run_blocks = 40;
	m.run_live = 1200 * MIB;
	m.run_born = 6000 * MIB;
	return m;
}

/* What remains after each step has a rule of its own. */
static void hooks_that_store_are_named(void **state)
{
	struct metrics m = behind_the_steps();

	(void)state;
	m.run_kept_stacks = 8;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.hooked = 1000 * MIB;
	m.hooked_blocks = 40;
	assert_int_equal(assert_cause(&m, "HOOKS_STORE"), 1000 * MIB);
	m.size_ratio = 200;
	m.size_growth = 1100 * MIB;
	assert_cause(&m, "HOOKS_STORE");
	m.size_ratio = m.size_growth = 0;
	m.left = 600 * MIB;
	m.left_steps = 3;
	m.left_blocks = 10;
	assert_cause(&m, "EARLIER_STEP_KEPT");
}

/* One line made 32 blocks in evaluation, and other lines of the model have four blocks each:
 * results, until many lines have blocks of several layers. */
static void blocks_of_many_layers_are_a_graph(void **state)
{
	struct metrics m = behind_the_steps();

	(void)state;
	m.run_repeats = 32;
	m.run_repeat_bytes = 700 * MIB;
	m.run_kept_stacks = 4;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.run_layer_stacks = 6;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.run_kept_stacks = 3;
	assert_cause(&m, "EVAL_ACCUMULATION");
}

/* One pass of three layers, which has grown beyond the steps before. */
static void a_graph_of_few_layers_is_no_large_batch(void **state)
{
	struct metrics m = behind_the_steps();

	(void)state;
	m.size_growth = 500 * MIB;
	m.run_layer_stacks = 2;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.run_layer_stacks = 8;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.run_blocks = 12;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	/* A library that asks for more is no batch. */
	m.by_library = 1;
	assert_cause(&m, "ACT_PEAK");
}

/* Each of three steps has made a deep copy, and an optimizer for it. */
static void models_of_several_steps_are_no_leak_of_a_graph(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.leak_steps = 3;
	m.leak_bytes = 900 * MIB;
	m.leak_blocks = 90;
	m.param_copies = m.twin = 310 * MIB;
	m.param_copies_blocks = 30;
	m.called_twice = 1;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
	m.replicas = 3;
	assert_cause(&m, "SECOND_MODEL");
	/* More than models, gradients and states. */
	m.leak_bytes = 1600 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

/* A stateless optimizer may use it. */
static void a_tables_gradient_is_named_where_nothing_else_is(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.gradients = 420 * MIB;
	m.optimizer_states = 100 * MIB;
	m.unstepped = 400 * MIB;
	assert_cause(&m, "GRADIENTS_UNUSED");
	m.table_gradient = 400 * MIB;
	assert_int_equal(assert_cause(&m, "TABLE_GRADIENT"), 400 * MIB);
	m.unstepped = 420 * MIB;
	assert_cause(&m, "GRADIENTS_UNUSED");
}

/* Until an optimizer shows, the second forward pass may be a micro-batch of the first step. */
static void gradients_of_a_micro_batch_are_needed(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.tags = TAGGED(OPTIMIZER);
	m.gradients = m.old_gradients = m.without_old_gradients = 600 * MIB;
	m.table_gradient = 500 * MIB;
	assert_cause(&m, "GRADS_HELD_IN_FORWARD");
	m.tags = 0;
	assert_cause(&m, "TABLE_GRADIENT");
	m.table_gradient = 0;
	assert_cause(&m, "GRADS_HELD_IN_FORWARD");
	assert_int_equal(confidence_of_cause(&m), 0);
}

/* A model of 240 MiB was made after one of 200 MiB, whose gradients and states are there too:
 * beside Adam's two states of the newest, 400 MiB, and one gradient of each, 200 MiB. */
static void earlier_models_have_gradients_and_states(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.parameters = 440 * MIB;
	m.param_copies = m.remade = 200 * MIB;
	m.param_copies_blocks = 20;
	m.gradients = 240 * MIB;
	m.optimizer_states = 480 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.gradients = 440 * MIB;
	m.optimizer_states = 880 * MIB;
	assert_cause(&m, "SECOND_MODEL");
	/* The gradients that stay are those of the earlier models. */
	m.leak_steps = 3;
	m.leak_bytes = m.leak_autograd = 400 * MIB;
	assert_cause(&m, "SECOND_MODEL");
	m.remade = m.param_copies = 0;
	assert_cause(&m, "GRADIENTS_KEPT");
}

/* Beside large activations, the gradients of a base of 290 MiB are a small share. */
static void a_small_base_is_trained_all_the_same(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(ADAPTER);
	m.adapters = 10 * MIB;
	m.parameters = 300 * MIB;
	m.gradients = 160 * MIB;
	assert_int_equal(assert_cause(&m, "BASE_TRAINED"), 150 * MIB);
	m.gradients = 60 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* An option of PyTorch's optimizers would change nothing. */
static void an_optimizer_of_the_jobs_own_has_no_option(void **state)
{
	struct metrics m = failure();
	struct diagnosis d;

	(void)state;
	m.in_backward = m.activations = 0;
	m.in_optimizer = 1;
	m.optimizer_temporaries = m.own_temporaries = 600 * MIB;
	d = diagnosis_of(&m);
	assert_string_equal(diagnosis_cause(&d, 0)->rule, "OPT_FOREACH_TEMP");
	assert_int_equal(diagnosis_cause(&d, 0)->remedy_count, 1);
	assert_null(strstr(diagnosis_cause(&d, 0)->remedies[0].action, "foreach"));
	diagnosis_release(&d);
}

/* Its flat buffers are no larger than the model, here of two ranks. */
static void data_may_lie_beside_shards(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.tags = TAGGED(FSDP);
	m.world_size = 2;
	m.data = 450 * MIB;
	m.data_blocks = 1;
	assert_cause(&m, "DATA_ON_GPU");
	m.parameters = 300 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* A new optimizer makes its states in the third step, and has not come to all parameters. */
static void states_that_are_being_made_are_not_missing(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 3;
	m.gradients = 400 * MIB;
	m.optimizer_states = 100 * MIB;
	m.unstepped = 300 * MIB;
	assert_cause(&m, "GRADIENTS_UNUSED");
	/* A second gradient of each has no state either. */
	m.extra_gradients = 300 * MIB;
	assert_cause(&m, "GRADIENT_SETS");
	m.extra_gradients = 0;
	m.in_backward = m.activations = 0;
	m.in_optimizer = m.request_is_state = 1;
	assert_cause(&m, "OPT_FIRST_STEP_JUMP");
}

/* The output of the head alone, before its loss, is more than all else. */
static void one_block_of_logits_is_enough(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.logits_blocks = 1;
	m.logits = m.logits_block = 1000 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.requested = 1000 * MIB;
	m.request_is_logits = 1;
	assert_cause(&m, "LOGITS_SPIKE");
	m.logits = m.requested = 700 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* Most of what each step leaves was made by backward passes: a graph for second derivatives. */
static void what_backward_passes_leave_is_no_output_of_layers(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.kept_stacks = 1;
	m.passes_kept = 3;
	m.model_stacks = 6;
	m.leak_steps = 3;
	m.leak_blocks = 354;
	m.leak_bytes = 1400 * MIB;
	m.leak_per_step = 472 * MIB;
	assert_cause(&m, "LAYERS_STORED");
	m.leak_autograd = 1100 * MIB;
	assert_cause(&m, "LEAK_GRAPH_RETAINED");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hooks_that_store_are_named),
		cmocka_unit_test(blocks_of_many_layers_are_a_graph),
		cmocka_unit_test(a_graph_of_few_layers_is_no_large_batch),
		cmocka_unit_test(models_of_several_steps_are_no_leak_of_a_graph),
		cmocka_unit_test(gradients_of_a_micro_batch_are_needed),
		cmocka_unit_test(earlier_models_have_gradients_and_states),
		cmocka_unit_test(a_small_base_is_trained_all_the_same),
		cmocka_unit_test(an_optimizer_of_the_jobs_own_has_no_option),
		cmocka_unit_test(data_may_lie_beside_shards),
		cmocka_unit_test(states_that_are_being_made_are_not_missing),
		cmocka_unit_test(one_block_of_logits_is_enough),
		cmocka_unit_test(a_tables_gradient_is_named_where_nothing_else_is),
		cmocka_unit_test(what_backward_passes_leave_is_no_output_of_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
