/* Savings of a job that failed in its first forward pass, and of one that was measured whole. */
#include "choice.h"

static struct metrics in_first_pass(void)
{
	struct metrics m = failure();

	m.step = 1;
	m.steps = m.in_backward = 0;
	m.in_forward = m.pass_unfinished = m.whole_is_least = 1;
	return m;
}

/* The last remedy of ACT_PEAK: half the micro-batch. */
static struct remedy half_of(struct metrics *m, struct metrics *whole)
{
	struct measured_need need = { .metrics = whole };
	struct rank rank = { .end = END_OOM, .metrics = m };
	struct report report = { .ranks = &rank, .count = 1, .need = whole ? &need : NULL };
	struct diagnosis d = { 0 };
	const struct finding *f;
	struct remedy found;

	diagnose(&d, &report);
	f = diagnosis_cause(&d, 0);
	assert_non_null(f);
	assert_string_equal(f->rule, "ACT_PEAK");
	found = f->remedies[f->remedy_count - 1];
	assert_memory_equal(found.action, "half the", strlen("half the"));
	found.action = NULL;
	diagnosis_release(&d);
	return found;
}

/* 1024 MiB of activations and the request of 256 MiB are much beside parameters of 200 MiB: the
 * rest of the pass makes more of them. Parameters of 400 MiB may need more in the optimizer. */
static void an_unfinished_pass_saves_at_least_this(void **state)
{
	struct metrics m = in_first_pass();
	struct remedy half = half_of(&m, NULL);

	(void)state;
	assert_int_equal(half.bound, SAVING_AT_LEAST);
	assert_int_equal(half.saving, 640 * MIB);
	m.parameters = 400 * MIB;
	assert_int_equal(half_of(&m, NULL).bound, SAVING_AT_FAILURE);
}

/* At its peak of 6000 MiB, the whole job has 3000 MiB of activations; its optimizer needs up to
 * 5000 MiB. */
static void a_whole_job_tells_what_is_saved(void **state)
{
	struct metrics m = in_first_pass(), whole = { .activations = 3000 * MIB,
						      .peak_needed = 6000 * MIB,
						      .optimizer_peak = 4000 * MIB };
	struct remedy half = half_of(&m, &whole);

	(void)state;
	assert_int_equal(half.bound, SAVING_ABOUT);
	assert_int_equal(half.saving, 1500 * MIB);
	whole.optimizer_peak = 5000 * MIB;
	assert_int_equal(half_of(&m, &whole).saving, 1000 * MIB);
	/* What it has none of at its peak, the failure alone had. */
	whole.activations = 0;
	half = half_of(&m, &whole);
	assert_int_equal(half.bound, SAVING_AT_FAILURE);
	assert_int_equal(half.saving, 640 * MIB);
}

/* An odd micro-batch of the command line, 3, leaves 1. */
static void the_settings_are_those_of_the_job(void **state)
{
	struct metrics m = in_first_pass(),
		       whole = { .activations = 3000 * MIB, .peak_needed = 6000 * MIB };

	(void)state;
	m.micro_batch = 3;
	m.half_batch = 1;
	m.tags = TAGGED(TRAINER);
	struct measured_need need = { .metrics = &whole };
	struct rank rank = { .end = END_OOM, .metrics = &m };
	struct report report = { .ranks = &rank, .count = 1, .need = &need };
	struct diagnosis d = { 0 };
	const struct finding *f;

	diagnose(&d, &report);
	f = diagnosis_cause(&d, 0);
	assert_non_null(f);
	assert_int_equal(f->remedies[f->remedy_count - 1].saving, 2000 * MIB);
	diagnosis_release(&d);
}

/* What the calls of a part that nobody trains take from the whole job's peak. What they have there
 * may be more: without it, another moment is the peak. */
static void a_whole_job_tells_what_a_graph_less_saves(void **state)
{
	struct metrics m = in_first_pass(), whole = { .peak_needed = 6000 * MIB,
						      .unoptimized = 4000 * MIB,
						      .without_unoptimized = 2500 * MIB };
	struct measured_need need = { .metrics = &whole };
	struct rank rank = { .end = END_OOM, .metrics = &m };
	struct report report = { .ranks = &rank, .count = 1 };

	(void)state;
	m.unoptimized = 900 * MIB;
	for (int measured = 0; measured <= 1; measured++) {
		struct diagnosis d = { 0 };
		struct remedy *first;

		report.need = measured ? &need : NULL;
		diagnose(&d, &report);
		assert_string_equal(diagnosis_cause(&d, 0)->rule, "UNOPTIMIZED_GRAPH");
		first = &diagnosis_cause(&d, 0)->remedies[0];
		assert_int_equal(first->bound, measured ? SAVING_ABOUT : SAVING_AT_FAILURE);
		assert_int_equal(first->saving, (measured ? 2500 : 900) * MIB);
		diagnosis_release(&d);
	}
}

/* The whole job has those blocks, too; at its peak they are not found. */
static void a_whole_job_that_shows_little_tells_nothing(void **state)
{
	struct metrics m = in_first_pass(),
		       whole = { .peak_needed = 6000 * MIB, .without_unoptimized = 400 * MIB };
	struct measured_need need = { .metrics = &whole };
	struct rank rank = { .end = END_OOM, .metrics = &m };
	struct report report = { .ranks = &rank, .count = 1, .need = &need };
	struct diagnosis d = { 0 };

	(void)state;
	m.unoptimized = 900 * MIB;
	diagnose(&d, &report);
	assert_int_equal(diagnosis_cause(&d, 0)->remedies[0].bound, SAVING_AT_FAILURE);
	assert_int_equal(diagnosis_cause(&d, 0)->remedies[0].saving, 900 * MIB);
	diagnosis_release(&d);
}

/* The graph under gradients that nobody uses goes with them. */
static void gradients_that_nobody_uses_are_a_part_of_what_is_saved(void **state)
{
	struct metrics m = failure_in_forward(),
		       whole = { .peak_needed = 6000 * MIB, .unstepped = 700 * MIB };
	struct measured_need need = { .metrics = &whole };
	struct rank rank = { .end = END_OOM, .metrics = &m };
	struct report report = { .ranks = &rank, .count = 1, .need = &need };
	struct diagnosis d = { 0 };

	(void)state;
	m.optimizer_states = 100 * MIB;
	m.gradients = 700 * MIB;
	m.unstepped = 600 * MIB;
	diagnose(&d, &report);
	assert_string_equal(diagnosis_cause(&d, 0)->rule, "GRADIENTS_UNUSED");
	assert_int_equal(diagnosis_cause(&d, 0)->remedies[0].bound, SAVING_AT_LEAST);
	assert_int_equal(diagnosis_cause(&d, 0)->remedies[0].saving, 700 * MIB);
	diagnosis_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unfinished_pass_saves_at_least_this),
		cmocka_unit_test(a_whole_job_tells_what_is_saved),
		cmocka_unit_test(the_settings_are_those_of_the_job),
		cmocka_unit_test(a_whole_job_tells_what_a_graph_less_saves),
		cmocka_unit_test(a_whole_job_that_shows_little_tells_nothing),
		cmocka_unit_test(gradients_that_nobody_uses_are_a_part_of_what_is_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
