/* Where a saving is a bound: what was measured is a part of what the whole step, or the whole job,
 * needs. */
#include "choice.h"

/* Each of two steps has left 400 MiB of graphs; the parameters are little beside that. */
static struct metrics graphs_of_two_steps(void)
{
	struct metrics m = failure();

	m.step = m.steps = 3;
	m.leak_bytes = m.kept = 800 * MIB;
	m.leak_steps = m.passes_kept = 2;
	m.parameters = 20 * MIB;
	m.in_backward = 0;
	m.in_forward = 1;
	return m;
}

/* The third step's own graph would not be freed in its backward pass either. */
static void a_graph_that_stays_in_the_backward_pass(void **state)
{
	struct metrics m = graphs_of_two_steps();

	(void)state;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 800 * MIB);
	m.leak_steps = 4;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 800 * MIB);
	m.in_forward = 0;
	m.in_backward = 1;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 800 * MIB);
}

/* A step of two micro-batches has the graph of the first one beside that of the second. */
static void graphs_of_several_passes(void **state)
{
	struct metrics m = graphs_of_two_steps();

	(void)state;
	m.passes_kept = 4;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 800 * MIB);
}

/* The third step failed before its forward pass; of the 800 MiB, its predecessor's 400 are what it
 * left behind. */
static void the_newest_graph_counts_once(void **state)
{
	struct metrics m = graphs_of_two_steps();

	(void)state;
	m.left_behind = 400 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 1200 * MIB);
	m.kept = 400 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 800 * MIB);
}

/* Each of four steps has made a model of 200 MiB, of which the newest runs. */
static void the_newest_of_many_models_is_in_use(void **state)
{
	struct metrics m = graphs_of_two_steps();

	(void)state;
	m.kept = m.passes_kept = 0;
	m.leak_steps = 4;
	m.leak_stored = m.leak_bytes;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 800 * MIB);
	m.leak_in_use = 200 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 600 * MIB);
}

/* Gradients of activations: this backward pass has not made all of its own. */
static void what_backward_passes_leave(void **state)
{
	struct metrics m = graphs_of_two_steps();

	(void)state;
	m.kept = m.passes_kept = 0;
	m.leak_autograd = 600 * MIB;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_ABOUT, 800 * MIB);
	m.in_forward = 0;
	m.in_backward = 1;
	assert_saving(&m, "LEAK_GRAPH_RETAINED", SAVING_AT_LEAST, 800 * MIB);
}

/* The steps had 1800 MiB of tensors of this size, too; the evaluation behind them needs 400 more.
 */
static void an_evaluation_needs_what_it_adds_to_the_steps(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.whole_measured = 1;
	m.size_growth = 400 * MIB;
	m.huge = 900 * MIB;
	m.huge_sum = m.huge_own = 1800 * MIB;
	m.huge_blocks = 2;
	m.huge_lines = 1;
	m.without_huge = 900 * MIB;
	assert_saving(&m, "HUGE_TENSORS", SAVING_AT_LEAST, 400 * MIB);
	m.in_evaluation = 0;
	assert_saving(&m, "HUGE_TENSORS", SAVING_ABOUT, 900 * MIB);
}

/* An evaluation has 1500 MiB with its graph; without one, a layer's input and output, of 350 each,
 * are there too. */
static void a_layer_of_an_evaluation_stays(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.run_evaluates = 1;
	m.run_new = m.run_model = 90;
	m.run_live = 1500 * MIB;
	m.run_born = 1700 * MIB;
	m.run_blocks = 40;
	m.without_new_run = m.size_growth = 1400 * MIB;
	assert_saving(&m, "EVAL_GRAPH_KEPT", SAVING_AT_LEAST, 1400 * MIB);
	m.layer_output = 350 * MIB;
	assert_saving(&m, "EVAL_GRAPH_KEPT", SAVING_AT_LEAST, 800 * MIB);
	/* The head of a language model makes 800 MiB of logits from 20 MiB. */
	m.layer_output = 800 * MIB;
	assert_saving(&m, "EVAL_GRAPH_KEPT", SAVING_AT_LEAST, 700 * MIB);
}

/* All weights are put together: their copies, and the one that is asked for. */
static void copies_in_an_evaluation_are_beside_the_steps(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.in_evaluation = m.copying = 1;
	m.param_copies = 400 * MIB;
	m.param_copies_blocks = 40;
	m.size_growth = 600 * MIB;
	assert_saving(&m, "SECOND_MODEL", SAVING_AT_LEAST, 600 * MIB);
	m.size_growth = 900 * MIB;
	assert_saving(&m, "SECOND_MODEL", SAVING_AT_LEAST, 656 * MIB);
	/* An average of the weights was there before: the steps have it, too. */
	m.copying = 0;
	m.size_growth = 100 * MIB;
	assert_saving(&m, "SECOND_MODEL", SAVING_ABOUT, 400 * MIB);
	/* One tensor of all of them is asked for. */
	m.requested = 400 * MIB;
	assert_saving(&m, "SECOND_MODEL", SAVING_AT_LEAST, 400 * MIB);
	m.requested = 600 * MIB;
	assert_saving(&m, "SECOND_MODEL", SAVING_ABOUT, 400 * MIB);
}

/* Something else was there before, which needed nearly as much as half of a checkpoint. */
static void a_checkpoint_that_is_being_read(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_setup = 1;
	m.step = m.steps = 0;
	m.loaded = 400 * MIB;
	m.without_loaded = 390 * MIB;
	m.parameters = 400 * MIB;
	assert_saving(&m, "RESUME_DUPLICATE_STATE", SAVING_ABOUT, 390 * MIB);
	m.without_loaded = 60 * MIB;
	assert_saving(&m, "RESUME_DUPLICATE_STATE", SAVING_AT_LEAST, 60 * MIB);
}

/* An eighth of 800 MiB is there with eight chunks; a fused loss has next to none of it. The steps
 * need 600 for something else. */
static void one_chunk_of_the_logits_stays(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.step = m.steps = 4;
	m.in_backward = 0;
	m.in_forward = m.whole_measured = 1;
	m.logits_blocks = 3;
	m.logits = m.without_logits = 800 * MIB;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 700 * MIB);
	m.tags = TAGGED(TRAINER) | TAGGED(LIGER);
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 800 * MIB);
	m.tags = 0;
	m.without_logits = 600 * MIB;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 600 * MIB);
	/* More than cross entropy needs: before its backward pass, what this loss will need is not
	 * known. */
	m.whole_measured = 0;
	m.whole_need = 3 * GIB;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 600 * MIB);
	m.logits_blocks = 5;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_AT_FAILURE, 600 * MIB);
	m.loss_is_own = 1;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_AT_LEAST, 600 * MIB);
	m.loss_is_own = 0;
	m.in_backward = 1;
	assert_saving(&m, "LOGITS_SPIKE", SAVING_ABOUT, 600 * MIB);
}

/* Before the logits of a prompt, the call had needed 1800 MiB; with them 2300. */
static void logits_of_a_prompt_are_not_all_of_a_peak(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = m.inference = m.source_last = 1;
	m.step = m.steps = 0;
	m.requested = m.logits = m.logits_block = 700 * MIB;
	m.logits_blocks = m.request_is_logits = 1;
	m.allocated = 1600 * MIB;
	m.allocated_peak = 1800 * MIB;
	m.peak_needed = 2300 * MIB;
	m.activations = 100 * MIB;
	assert_saving(&m, "LOGITS_OF_PROMPT", SAVING_ABOUT, 500 * MIB);
	m.allocated_peak = 1600 * MIB;
	assert_saving(&m, "LOGITS_OF_PROMPT", SAVING_ABOUT, 700 * MIB);
	/* The peak may have been one of logits, of an earlier prompt. */
	m.allocated_peak = 1800 * MIB;
	m.inference_calls = 2;
	assert_saving(&m, "LOGITS_OF_PROMPT", SAVING_ABOUT, 700 * MIB);
	m.inference_calls = 1;
	/* A copy of logits that are there already. */
	m.logits_blocks = 2;
	m.allocated_peak = 2200 * MIB;
	assert_saving(&m, "LOGITS_OF_PROMPT", SAVING_ABOUT, 700 * MIB);
	/* A prompt that is longer than those before. */
	m.step = m.steps = 3;
	m.whole_measured = 1;
	m.size_growth = 600 * MIB;
	assert_saving(&m, "LOGITS_OF_PROMPT", SAVING_AT_LEAST, 600 * MIB);
}

/* More data may come. */
static void data_of_the_set_up_saves_at_least_what_lies_there(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = m.steps = 0;
	m.step = m.in_setup = 1;
	m.activations = 0;
	m.setup_line = 1600 * MIB;
	m.setup_blocks = 20;
	m.setup_kept = 1600 * MIB;
	assert_saving(&m, "DATA_IN_SETUP", SAVING_AT_LEAST, 1600 * MIB);
}

/* A tensor of 600 MiB, of which a batch may be a part: another input of 200 MiB shows that. */
static void a_batch_may_be_a_part_of_the_data(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.data = 600 * MIB;
	m.data_blocks = 1;
	m.batch_inputs = 610 * MIB;
	m.activations = 300 * MIB;
	assert_saving(&m, "DATA_ON_GPU", SAVING_ABOUT, 600 * MIB);
	m.batch_inputs = 800 * MIB;
	assert_saving(&m, "DATA_ON_GPU", SAVING_AT_FAILURE, 600 * MIB);
}

/* A copy of 600 MiB: in the first step, more of it may be to come. */
static void copies_of_the_first_step_are_the_least(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.param_copies = 600 * MIB;
	m.parameters = 1200 * MIB;
	m.activations = 300 * MIB;
	assert_saving(&m, "SECOND_MODEL", SAVING_ABOUT, 600 * MIB);
	m.step = m.steps = 1;
	assert_saving(&m, "SECOND_MODEL", SAVING_AT_LEAST, 600 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_graph_that_stays_in_the_backward_pass),
		cmocka_unit_test(graphs_of_several_passes),
		cmocka_unit_test(the_newest_graph_counts_once),
		cmocka_unit_test(the_newest_of_many_models_is_in_use),
		cmocka_unit_test(what_backward_passes_leave),
		cmocka_unit_test(an_evaluation_needs_what_it_adds_to_the_steps),
		cmocka_unit_test(copies_in_an_evaluation_are_beside_the_steps),
		cmocka_unit_test(a_checkpoint_that_is_being_read),
		cmocka_unit_test(one_chunk_of_the_logits_stays),
		cmocka_unit_test(logits_of_a_prompt_are_not_all_of_a_peak),
		cmocka_unit_test(data_of_the_set_up_saves_at_least_what_lies_there),
		cmocka_unit_test(a_layer_of_an_evaluation_stays),
		cmocka_unit_test(a_batch_may_be_a_part_of_the_data),
		cmocka_unit_test(copies_of_the_first_step_are_the_least),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
