/* What a run made while its thread's operations made nodes of the autograd graph, and while they
 * made none. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

static void says(struct fixture *f, int made)
{
	write_event_on(&f->w, 0, MT_GRAD_MODE, 0, (uint64_t)made, NONE, f->python);
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
		says(f, 1);
		drop(f, f->zero_grad, micro_batch(f), 5 * MIB);
		says(f, 0);
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
	says(f, 1);
	m = evaluation(f);
	assert_int_equal(m->in_graph, 1);
	assert_int_equal(m->no_graph, 0);
	assert_int_equal(m->run_in_graph, 7 * MIB);
}

/* Of another thread, and of threads without an id, something else is known. */
static void of_a_function_with_its_own_backward_pass_it_is_not_known(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	steps(f);
	says(f, 2);
	write_event_on(&f->w, 0, MT_GRAD_MODE, 0, 1, NONE, f->autograd);
	write_event_on(&f->w, 0, MT_GRAD_MODE, 0, 0, NONE, MT_NO_THREAD);
	m = evaluation(f);
	assert_false(m->in_graph || m->no_graph || m->run_in_graph || m->run_no_graph);
}

/* Several threads may be without one. */
static void of_threads_without_an_id_nothing_is_known(void **state)
{
	struct fixture *f = *state;

	steps(f);
	write_event_on(&f->w, 0, MT_GRAD_MODE, 0, 0, NONE, MT_NO_THREAD);
	f->python = MT_NO_THREAD;
	assert_int_equal(evaluation(f)->no_graph, 0);
}

static void parameter(struct fixture *f, uint64_t address, enum mt_parameter is)
{
	write_event_on(&f->w, 0, MT_PARAMETER, address, is, NONE, f->python);
}

/* Parameters of 30 and 20; the optimizer gets those of 20, and one that is too small to count. The
 * operations of 7 lead to none of them; those of 3 do. */
static void what_leads_to_no_parameter_of_an_optimizer_is_needless(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	parameter(f, make(f, f->setup, 20 * MIB), MT_PARAMETER_GIVEN);
	parameter(f, make(f, f->setup, 512), MT_PARAMETER_GIVEN);
	parameter(f, make(f, f->setup, 30 * MIB), MT_PARAMETER_UNOWNED);
	says(f, 3);
	make(f, f->model, 7 * MIB);
	says(f, 1);
	parameter(f, 0, MT_PARAMETER_USED);
	make(f, f->model, 3 * MIB);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->needless, 7 * MIB);
	assert_int_equal(m->optimized, 20 * MIB);
	assert_int_equal(m->unowned, 30 * MIB);
	assert_true(m->optimizers_known && m->optimized_used && m->in_graph);
	assert_false(m->optimized_elsewhere || m->optimized_replaced);
}

/* The request would be needless too. */
static void what_was_asked_for_may_be_needless(void **state)
{
	struct fixture *f = *state;

	parameter(f, make(f, f->setup, 20 * MIB), MT_PARAMETER_GIVEN);
	says(f, 3);
	make(f, f->model, 7 * MIB);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 100 * MIB, f->model);
	assert_int_equal(fixture_report(f)->metrics->needless, 107 * MIB);
}

/* An optimizer of the first parameter takes the place of one that had both. */
static void an_optimizer_replaces_another(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;
	uint64_t first = make(f, f->setup, 20 * MIB), second = make(f, f->setup, 30 * MIB);

	parameter(f, first, MT_PARAMETER_GIVEN);
	parameter(f, second, MT_PARAMETER_GIVEN);
	parameter(f, first, MT_PARAMETER_REPLACED);
	parameter(f, second, MT_PARAMETER_REPLACED);
	parameter(f, first, MT_PARAMETER_GIVEN);
	parameter(f, 0, MT_PARAMETER_GIVEN);
	make(f, f->model, 7 * MIB);
	m = fixture_report(f)->metrics;
	assert_int_equal(m->optimized, 20 * MIB);
	assert_true(m->optimized_replaced && m->optimized_elsewhere);
	assert_false(m->optimized_used || m->needless || m->unowned_changed);
}

static void what_optimizers_have_may_become_unknown(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	parameter(f, make(f, f->setup, 20 * MIB), MT_PARAMETER_GIVEN);
	parameter(f, 0, MT_PARAMETER_CHANGED);
	parameter(f, 0, MT_PARAMETER_UNKNOWN);
	make(f, f->model, 7 * MIB);
	m = fixture_report(f)->metrics;
	assert_true(m->unowned_changed);
	assert_false(m->optimizers_known);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(an_older_trace_tells_nothing),
		CASE(disabled_gradients_make_no_nodes),
		CASE(an_evaluation_may_make_nodes),
		CASE(of_a_function_with_its_own_backward_pass_it_is_not_known),
		CASE(of_threads_without_an_id_nothing_is_known),
		CASE(what_leads_to_no_parameter_of_an_optimizer_is_needless),
		CASE(what_was_asked_for_may_be_needless),
		CASE(an_optimizer_replaces_another),
		CASE(what_optimizers_have_may_become_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
