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

enum { LINEAR = 1, GELU, USED, ONE, UNDER_NO_GRAD };

/* Four layers of 10 MiB, made by two lines, were all freed in the forward pass of the step before.
 * A backward pass has used those of a third line; a fourth one holds one at a time. */
static void layers_that_no_backward_pass_uses(void **state)
{
	static const struct stack_info lines[STACKS] = {
		[LINEAR] = { .flags = STACK_MODULE },
		[GELU] = { .flags = STACK_MODULE },
		[USED] = { .flags = STACK_MODULE },
		[ONE] = { .flags = STACK_MODULE },
		[UNDER_NO_GRAD] = { .flags = STACK_MODULE | STACK_NO_GRAD },
	};
	const struct stack_levels four = { .now = 10 * MIB,
					   .before = 10 * MIB,
					   .live = 40 * MIB,
					   .held_before = 40 * MIB,
					   .freed = 4,
					   .dropped = 4 };
	struct stack_levels levels[STACKS] = {
		[LINEAR] = four, [GELU] = four, [USED] = four, [ONE] = four, [UNDER_NO_GRAD] = four
	};
	const struct tables tables = { .stack_count = STACKS, .stack_info = (void *)lines };
	const struct live_passes passes = { 0 };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels };

	(void)state;
	levels[USED].dropped = 3;
	levels[ONE].live = levels[ONE].held_before = 10 * MIB;
	metrics_compare_calls(&d, &tables, &passes);
	assert_int_equal(m.unused_layers, 80 * MIB);
	assert_int_equal(m.unused_lines, 2);
	/* The first step: nothing was freed yet. */
	m.unused_layers = levels[LINEAR].before = levels[GELU].before = 0;
	metrics_compare_calls(&d, &tables, &passes);
	assert_int_equal(m.unused_layers, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_drops_what_the_other_keeps_has_no_graph),
		cmocka_unit_test(a_call_that_holds_much_has_a_graph),
		cmocka_unit_test(layers_that_no_backward_pass_uses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
