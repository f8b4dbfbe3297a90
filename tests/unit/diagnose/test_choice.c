/* Which of several causes that hold is chosen, from quantities written by hand: those of a device
 * of 4 GiB that 2 GiB of tensors and a request fill. */
#include "diagnose/diagnose.h"
#include "metrics/metrics.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

static struct metrics failure(void)
{
	return (struct metrics){ .failed = 1,
				 .died = 1,
				 .requested = 256 * MIB,
				 .short_by = 128 * MIB,
				 .device_total = 4 * GIB,
				 .device_free = 128 * MIB,
				 .allocated = 2 * GIB,
				 .reserved = 2 * GIB,
				 .outside = 2 * GIB - 128 * MIB,
				 .peak_needed = 2 * GIB + 256 * MIB,
				 .step = 2,
				 .steps = 2,
				 .in_backward = 1,
				 .parameters = 200 * MIB,
				 .activations = GIB };
}

/* Asserts the cause; returns what its first remedy saves. */
static int64_t assert_cause(struct metrics *m, const char *rule)
{
	struct rank rank = { .end = END_OOM, .metrics = m };
	struct report report = { .ranks = &rank, .count = 1 };
	struct diagnosis d = { 0 };
	int64_t saving;

	diagnose(&d, &report);
	assert_non_null(diagnosis_cause(&d, 0));
	assert_string_equal(diagnosis_cause(&d, 0)->rule, rule);
	saving = diagnosis_cause(&d, 0)->remedies[0].saving;
	diagnosis_release(&d);
	return saving;
}

/* Two models; a call from a line that no step had before is none of the reference's, which every
 * step calls. */
static void a_new_call_is_not_the_references(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.twin = 100 * MIB;
	m.again = 800 * MIB;
	assert_cause(&m, "REFERENCE_GRAPH");
	m.again_was_new = 1;
	assert_cause(&m, "GRAPH_UNUSED");
	/* In the first step each line is new. */
	m.step = m.steps = 1;
	assert_cause(&m, "REFERENCE_GRAPH");
}

static void adapters_have_a_frozen_base(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.adapters = 10 * MIB;
	m.gradients = 12 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.gradients = 300 * MIB;
	m.parameters = 600 * MIB;
	assert_int_equal(assert_cause(&m, "BASE_TRAINED"), 290 * MIB);
}

/* Nearly all of such a job has half the size in the other type. */
static void widened_parameters_are_a_cause(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.widened = 200 * MIB;
	assert_int_equal(assert_cause(&m, "ACT_PEAK"), SAVING_UNKNOWN);
	m.parameters = m.widened = 400 * MIB;
	assert_int_equal(assert_cause(&m, "DOUBLE_PRECISION"), GIB + 128 * MIB);
	m.whole_need = 3 * GIB;
	assert_int_equal(assert_cause(&m, "DOUBLE_PRECISION"), GIB + GIB / 2);
}

/* A line makes many tensors, and no model is called between them: no results. */
static void results_have_a_call_between(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.in_backward = 0;
	m.in_forward = 1;
	m.run_repeats = 20;
	m.run_repeat_bytes = m.run_live = m.run_born = 800 * MIB;
	assert_cause(&m, "EVAL_ACCUMULATION");
	m.data = 800 * MIB;
	m.data_blocks = 20;
	assert_cause(&m, "DATA_ON_GPU");
}

/* Without a trace of an optimizer, a backward pass may add to the gradients of the one before. */
static void gradients_of_no_optimizer_may_be_accumulated(void **state)
{
	struct metrics m = failure();

	(void)state;
	m.old_gradients = m.gradients = 300 * MIB;
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
	m.run_evaluates = 1;
	assert_cause(&m, "ACT_PEAK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_call_is_not_the_references),
		cmocka_unit_test(adapters_have_a_frozen_base),
		cmocka_unit_test(widened_parameters_are_a_cause),
		cmocka_unit_test(results_have_a_call_between),
		cmocka_unit_test(a_first_step_with_no_grad_is_no_evaluation),
		cmocka_unit_test(gradients_of_no_optimizer_may_be_accumulated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
