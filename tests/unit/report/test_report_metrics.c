/* The bounds of the metrics that a report keeps. */
#include "fixture.h"

#include "report/report_metrics.h"

/* A cache of 24 KiB a token on a device of 16 GiB; a job of many steps and retries. */
static void counts_that_rules_do_not_multiply_are_kept(void **state)
{
	struct metrics m = { .kv_tokens_left = 16 * GIB / (24 * 1024),
			     .kv_requests_left = 1000000,
			     .step = 100000,
			     .leak_steps_to_go = 250000,
			     .retries = 70000 };

	(void)state;
	report_clamp_metrics(&m);
	assert_int_equal(m.kv_tokens_left, 699050);
	assert_int_equal(m.kv_requests_left, 1000000);
	assert_int_equal(m.step, 100000);
	assert_int_equal(m.leak_steps_to_go, 250000);
	assert_int_equal(m.retries, 70000);
}

/* Twice the product of a size and a factor is below 2^63. */
static void products_of_rules_do_not_overflow(void **state)
{
	struct metrics m = { .untied_block = INT64_MAX,
			     .untied_blocks = INT64_MAX,
			     .pinned_per_step = INT64_MIN,
			     .steps = INT64_MAX };
	int64_t product;

	(void)state;
	report_clamp_metrics(&m);
	assert_false(__builtin_mul_overflow(2 * m.untied_block, m.untied_blocks, &product));
	assert_false(__builtin_mul_overflow(m.pinned_per_step, m.steps, &product));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_that_rules_do_not_multiply_are_kept),
		cmocka_unit_test(products_of_rules_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
