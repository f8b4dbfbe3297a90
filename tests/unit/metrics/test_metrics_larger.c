/* Whether a call of the model has larger blocks than those of the steps before. */
#include "metrics/metrics_larger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

enum { LAYER = 1, OWN, STACKS };

/* A line of the model makes 10 MiB in each step; in the third, a new place calls it, and it makes
 * 35 MiB. */
static void a_pass_from_a_new_place_may_be_larger(void **state)
{
	static struct stack_info info[STACKS] = {
		[LAYER] = { .model_hash = 7 }, [OWN] = { .model_hash = 7 }
	};
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	struct metrics_pass p = { .tables = &tables };
	struct stack_levels levels[STACKS] = { [LAYER] = { .last_step = 2, .now = 10 * MIB },
					       [OWN] = { .last_step = 3, .now = 35 * MIB } };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels, .step = 2 };

	(void)state;
	metrics_find_larger(&p, &d);
	assert_int_equal(m.run_size_ratio, 349);
	info[OWN].model_hash = 8;
	metrics_find_larger(&p, &d);
	assert_int_equal(m.run_size_ratio, 0);
}

/* The evaluation behind the first step counts as the first step's: the newest run is the call. */
static void an_evaluation_behind_the_first_step_may_be_larger(void **state)
{
	static struct stack_info info[STACKS] = {
		[LAYER] = { .model_hash = 7 }, [OWN] = { .model_hash = 7 }
	};
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	struct metrics_pass p = { .tables = &tables };
	struct stack_levels levels[STACKS] = {
		[LAYER] = { .last_step = 1, .run = 1, .now = 10 * MIB },
		[OWN] = { .last_step = 1, .run = 2, .now = 160 * MIB }
	};
	struct metrics m = { .in_evaluation = 1 };
	struct device_pass d = { .m = &m, .stacks = levels, .step = 0, .run = 2 };

	(void)state;
	metrics_find_larger(&p, &d);
	assert_int_equal(m.run_size_ratio, 1599);
	m.in_evaluation = 0;
	metrics_find_larger(&p, &d);
	assert_int_equal(m.run_size_ratio, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pass_from_a_new_place_may_be_larger),
		cmocka_unit_test(an_evaluation_behind_the_first_step_may_be_larger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
