/* Where the job recorded whether its operations make nodes of the autograd graph, that decides
 * between a graph that is kept and a batch that is too large. */
#include "choice.h"

/* An evaluation behind a step; of what it made, most is gone. */
static struct metrics evaluation(void)
{
	struct metrics m = failure_in_forward();

	m.in_evaluation = m.run_evaluates = 1;
	m.size_growth = m.run_live = 800 * MIB;
	m.run_born = 4 * GIB;
	m.run_model = 90;
	return m;
}

static void an_evaluation_that_makes_nodes_keeps_a_graph(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.in_graph = 1;
	m.run_in_graph = 700 * MIB;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	/* A second loop of a training, as the source of the job shows. */
	m.source_trains = 1;
	assert_cause(&m, "EVAL_BATCH_LARGE");
	m.source_trains = 0;
	/* Most of what is there was made without a graph: it is no longer certain. */
	m.run_in_graph = 100 * MIB;
	m.run_no_graph = 600 * MIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* Most of what the model's lines made is there, in many blocks, as a graph keeps them. */
static void an_evaluation_that_makes_none_keeps_none(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.run_new = 90;
	m.run_born = 900 * MIB;
	m.run_blocks = 40;
	assert_cause(&m, "EVAL_GRAPH_KEPT");
	m.no_graph = 1;
	m.run_no_graph = 700 * MIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* In the first step, nothing else tells an evaluation from training that has another name. */
static void logits_without_a_graph_are_of_the_evaluations_batch(void **state)
{
	struct metrics m = evaluation();

	(void)state;
	m.step = m.steps = 1;
	m.logits = 900 * MIB;
	m.logits_block = 450 * MIB;
	m.logits_blocks = 2;
	assert_cause(&m, "LOGITS_SPIKE");
	m.no_graph = 1;
	m.run_no_graph = 700 * MIB;
	assert_cause(&m, "EVAL_BATCH_LARGE");
}

/* The first passes of a job, of which nobody knows yet whether it trains. */
static void a_first_pass_without_a_graph_is_no_models_that_is_not_trained(void **state)
{
	struct metrics m = failure_in_forward();

	(void)state;
	m.step = 1;
	m.steps = 0;
	m.run_live = m.run_born = m.pass_live = GIB;
	m.evaluation_mode = 1;
	assert_cause(&m, "EVAL_MODE_GRAPH");
	m.no_graph = m.predicts_all = 1;
	m.run_no_graph = GIB;
	assert_cause(&m, "INFERENCE_BATCH");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_evaluation_that_makes_nodes_keeps_a_graph),
		cmocka_unit_test(an_evaluation_that_makes_none_keeps_none),
		cmocka_unit_test(logits_without_a_graph_are_of_the_evaluations_batch),
		cmocka_unit_test(a_first_pass_without_a_graph_is_no_models_that_is_not_trained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
