/* Blocks that remain after each step, from lists of blocks written by hand. */
#include "metrics/metrics_leaks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define LEAK 1

/* The metrics in the fifth step. A stack has made a block of 10 MiB in each step up to it, from the
 * one of age `oldest` on, and 6 MiB in this step. */
static struct metrics in_the_fifth_step(uint16_t oldest)
{
	struct stack_levels stacks[LEAK + 1] = { 0 };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = stacks, .step = 4 };
	struct surviving_block blocks[8];
	size_t count = 0;

	for (uint16_t age = 0; age <= oldest; age++)
		blocks[count++] = (struct surviving_block){ .stack = LEAK,
							    .age = age,
							    .size = age ? 10 * MIB : 6 * MIB };
	metrics_find_leaks(&d, blocks, count);
	return m;
}

/* The first step has its block: those of this step are its own, which it may need. */
static void a_step_may_need_its_own_blocks(void **state)
{
	struct metrics m = in_the_fifth_step(4);

	(void)state;
	assert_int_equal(m.leak_bytes, 40 * MIB);
	assert_int_equal(m.leak_now, 0);
}

/* The first step has none, since its block was made behind it and counts as the second one's: those
 * of this step are the fourth one's. */
static void what_follows_a_step_counts_as_the_next_ones(void **state)
{
	struct metrics m = in_the_fifth_step(3);

	(void)state;
	assert_int_equal(m.leak_bytes, 30 * MIB);
	assert_int_equal(m.leak_now, 6 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_may_need_its_own_blocks),
		cmocka_unit_test(what_follows_a_step_counts_as_the_next_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
