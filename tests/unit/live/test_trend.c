/* Growth a step and steps until full, against numbers that were computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "live/trend.h"

#define MIB (INT64_C(1) << 20)

/* `count` steps of a second each; the floor of step i is floors[i] MiB, its peak 10 MiB above. */
static struct trend trend(const int *floors, size_t count)
{
	struct trend_step steps[100] = { 0 };

	for (size_t i = 0; i < count; i++)
		steps[i] = (struct trend_step){ 1000000000u * i, floors[i] * MIB,
						(floors[i] + 10) * MIB };
	return trend_of(steps, count);
}

static void a_line_has_its_slope(void **state)
{
	const int floors[] = { 100, 102, 104, 106, 108, 110, 112, 114 };
	struct trend t = trend(floors, 8);

	(void)state;
	assert_int_equal(t.steps, 8);
	assert_int_equal(t.growth, 2 * MIB);
	assert_true(t.is_growing);
	assert_int_equal(t.peak, 124 * MIB);
	assert_true(t.step_s == 1);
	/* From 124 MiB by 2 MiB a step: 38 steps to 200 MiB, 38 to 201, 37 to 199. */
	assert_int_equal(trend_steps_until(&t, 200 * MIB), 38);
	assert_int_equal(trend_steps_until(&t, 201 * MIB), 38);
	assert_int_equal(trend_steps_until(&t, 199 * MIB), 37);
	assert_int_equal(trend_steps_until(&t, 100 * MIB), 0);
}

/* A block every fourth step. */
static void jumps_are_growth(void **state)
{
	const int floors[] = { 0, 0, 0, 0, 5, 5, 5, 5, 10, 10, 10, 10, 15, 15, 15, 15 };
	struct trend t = trend(floors, 16);

	(void)state;
	/* Means of the halves: 2.5 and 12.5, 8 steps apart. */
	assert_int_equal(t.growth, 10 * MIB / 8);
	assert_true(t.is_growing);
	assert_int_equal(trend_steps_until(&t, 35 * MIB), 8);
}

static void a_level_that_varies_does_not_grow(void **state)
{
	const int floors[] = { 100, 103, 99, 104, 101, 105, 100, 106 };
	struct trend t = trend(floors, 8);

	(void)state;
	/* (1 + 2 + 1 + 2) / 4 / 4 */
	assert_int_equal(t.growth, 6 * MIB / 16);
	assert_false(t.is_growing);
	assert_int_equal(trend_steps_until(&t, 200 * MIB), -1);
}

static void a_level_that_falls_does_not_grow(void **state)
{
	const int floors[] = { 80, 70, 60, 50, 40, 30, 20, 10 };
	struct trend t = trend(floors, 8);

	(void)state;
	assert_int_equal(t.growth, -10 * MIB);
	assert_false(t.is_growing);
	assert_int_equal(trend_steps_until(&t, 200 * MIB), -1);
}

static void few_steps_say_nothing(void **state)
{
	const int floors[] = { 0, 10, 20, 30, 40, 50, 60 };
	struct trend t = trend(floors, 7);

	(void)state;
	assert_int_equal(t.steps, 6);
	assert_int_equal(trend_steps_until(&t, 200 * MIB), -1);
	t = trend(floors, 0);
	assert_int_equal(t.steps, 0);
}

/* What grew long ago and stays is no growth: only the last 64 steps count. Of an odd number the
 * oldest does not. */
static void the_latest_steps_count(void **state)
{
	int floors[100];
	struct trend t;

	(void)state;
	for (int i = 0; i < 100; i++)
		floors[i] = i < 36 ? i : 36;
	t = trend(floors, 100);
	assert_int_equal(t.steps, TREND_STEPS);
	assert_int_equal(t.growth, 0);
	t = trend(floors, 9);
	assert_int_equal(t.steps, 8);
	assert_int_equal(t.growth, MIB);
}

/* Sizes of a damaged trace do not overflow. */
static void extreme_levels_are_survived(void **state)
{
	struct trend_step steps[8] = { 0 };
	struct trend t;

	(void)state;
	for (size_t i = 0; i < 8; i++)
		steps[i].floor = steps[i].peak = i < 4 ? -BYTES_LIMIT : BYTES_LIMIT;
	t = trend_of(steps, 8);
	assert_int_equal(t.growth, BYTES_LIMIT / 2);
	assert_int_equal(trend_steps_until(&t, BYTES_LIMIT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_its_slope),
		cmocka_unit_test(jumps_are_growth),
		cmocka_unit_test(a_level_that_varies_does_not_grow),
		cmocka_unit_test(a_level_that_falls_does_not_grow),
		cmocka_unit_test(few_steps_say_nothing),
		cmocka_unit_test(the_latest_steps_count),
		cmocka_unit_test(extreme_levels_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
