/* Two calls of a model from different lines, of which the later one may be under no_grad(). */
#include "metrics/metrics_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

/* Three lines of the model, each called from two. */
enum { WIDE = 1, NARROW, HEAD, WIDE_AGAIN, NARROW_AGAIN, HEAD_AGAIN, STACKS };

static struct stack_info info[STACKS] = {
	[WIDE] = { .model_hash = 7, .caller_hash = 1 },
	[NARROW] = { .model_hash = 8, .caller_hash = 1 },
	[HEAD] = { .model_hash = 9, .caller_hash = 1 },
	[WIDE_AGAIN] = { .model_hash = 7, .caller_hash = 2 },
	[NARROW_AGAIN] = { .model_hash = 8, .caller_hash = 2 },
	[HEAD_AGAIN] = { .model_hash = 9, .caller_hash = 2 },
};

/* The first call keeps 60, 30 and 20 MiB. Blocks of the second call that were freed before a
 * backward pass, by line. */
static int is_freed(uint32_t wide, uint32_t narrow, bytes newest)
{
	const struct tables tables = { .stack_count = STACKS, .stack_info = info };
	struct stack_levels levels[STACKS] = {
		[WIDE] = { .live = 60 * MIB, .blocks = 2 },
		[NARROW] = { .live = 30 * MIB, .blocks = 3 },
		[HEAD] = { .live = 20 * MIB, .blocks = 1 },
		[WIDE_AGAIN] = { .live = 30 * MIB, .blocks = 2, .dropped = wide },
		[NARROW_AGAIN] = { .live = 10 * MIB, .blocks = 3, .dropped = narrow },
		[HEAD_AGAIN] = { .live = 20 * MIB, .blocks = 1 },
	};
	const struct live_passes passes = {
		.again = 110 * MIB, .newest = newest, .first_stack = HEAD, .again_stack = HEAD_AGAIN
	};
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels };

	metrics_compare_calls(&d, &tables, &passes);
	return (int)m.again_freed;
}

static void a_call_that_drops_what_the_other_keeps_has_no_graph(void **state)
{
	(void)state;
	assert_false(is_freed(0, 0, 120 * MIB));
	assert_false(is_freed(0, 2, 120 * MIB));
	assert_true(is_freed(1, 0, 120 * MIB));
	assert_true(is_freed(1, 2, 120 * MIB));
}

/* Of several layers, it holds half as much as the first call: a frozen base needs less, and is no
 * call without a graph. */
static void a_call_that_holds_much_has_a_graph(void **state)
{
	(void)state;
	assert_false(is_freed(1, 2, 165 * MIB));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_drops_what_the_other_keeps_has_no_graph),
		cmocka_unit_test(a_call_that_holds_much_has_a_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
