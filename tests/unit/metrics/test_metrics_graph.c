/* What a run made while its thread's operations made nodes of the autograd graph, and while they
 * made none. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

static void gradients(struct fixture *f, int enabled, int made)
{
	write_event_on(&f->w, 0, MT_GRAD_MODE, (uint64_t)enabled, (uint64_t)made, NONE, f->python);
}

/* A step, then 7 MiB of an evaluation that fails. */
static const struct metrics *evaluation(struct fixture *f)
{
	make(f, f->evaluation, 3 * MIB);
	make(f, f->evaluation, 4 * MIB);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->evaluation);
	return fixture_report(f)->metrics;
}

static void steps(struct fixture *f)
{
	for (int i = 0; i < 3; i++) {
		gradients(f, 1, 1);
		drop(f, f->zero_grad, micro_batch(f), 5 * MIB);
		gradients(f, 0, 0);
		drop(f, f->optimizer, make(f, f->optimizer, MIB), MIB);
	}
}

static void an_older_trace_tells_nothing(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	micro_batch(f);
	make(f, f->optimizer, MIB);
	m = evaluation(f);
	assert_false(m->in_graph || m->no_graph || m->run_in_graph || m->run_no_graph);
}

static void disabled_gradients_make_no_nodes(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	steps(f);
	m = evaluation(f);
	assert_int_equal(m->no_graph, 1);
	assert_int_equal(m->in_graph, 0);
	assert_int_equal(m->run_no_graph, 7 * MIB);
	assert_int_equal(m->run_in_graph, 0);
}

static void an_evaluation_may_make_nodes(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	steps(f);
	gradients(f, 1, 1);
	m = evaluation(f);
	assert_int_equal(m->in_graph, 1);
	assert_int_equal(m->no_graph, 0);
	assert_int_equal(m->run_in_graph, 7 * MIB);
}

/* Another thread's state is its own. */
static void of_a_function_with_its_own_backward_pass_it_is_not_known(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	steps(f);
	gradients(f, 0, 2);
	write_event_on(&f->w, 0, MT_GRAD_MODE, 1, 1, NONE, f->autograd);
	m = evaluation(f);
	assert_false(m->in_graph || m->no_graph || m->run_in_graph || m->run_no_graph);
}

/* If no node was ever seen, this build of PyTorch may make them unseen. */
static void without_any_node_enabled_gradients_tell_nothing(void **state)
{
	struct fixture *f = *state;

	gradients(f, 1, 0);
	assert_int_equal(evaluation(f)->no_graph, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(an_older_trace_tells_nothing),
		CASE(disabled_gradients_make_no_nodes),
		CASE(an_evaluation_may_make_nodes),
		CASE(of_a_function_with_its_own_backward_pass_it_is_not_known),
		CASE(without_any_node_enabled_gradients_tell_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
