/* Which observed block goes to which predicted one. */
#include "match/match_blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "util/util.h"

#define MIB (INT64_C(1) << 20)

static struct predicted expects(int term, enum category c, bytes size)
{
	return (struct predicted){ .term = term, .category = c, .least = size, .size = size };
}

static void category_goes_before_size_alone(void **state)
{
	struct predicted p[] = { expects(0, CATEGORY_ACTIVATIONS, 4096),
				 expects(1, CATEGORY_GRADIENTS, 4096) };
	struct peak_block rows[] = { { 4096, CATEGORY_GRADIENTS, "g" },
				     { 4096, CATEGORY_ACTIVATIONS, "a" } };
	struct observed o[] = { { &rows[0], -1, 0 }, { &rows[1], -1, 0 } };

	(void)state;
	match_blocks(p, 2, o, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(o[i].term, o[i].row->category == CATEGORY_GRADIENTS);
}

static void another_category_is_better_than_none(void **state)
{
	struct predicted p[] = { expects(3, CATEGORY_ACTIVATIONS, 4096) };
	struct peak_block row = { 4096, CATEGORY_TEMPORARIES, "t" };
	struct observed o[] = { { &row, -1, 0 } };

	(void)state;
	match_blocks(p, 1, o, 1);
	assert_int_equal(o[0].term, 3);
	assert_true(p[0].found);
}

/* A remainder of 1 MiB stays with a block that is larger than that: no more, and no smaller one. */
static void tails(void **state)
{
	static const struct {
		bytes predicted, observed;
		int found;
	} rows[] = {
		{ 2 * MIB, 3 * MIB, 1 },
		{ 2 * MIB, 3 * MIB + 512, 0 },
		{ 2 * MIB, 2 * MIB - 512, 0 },
		{ MIB, MIB + 512, 0 },
		{ MIB + 512, 2 * MIB, 1 },
		{ 512, 1024, 0 },
		{ INT64_C(1) << 49, (INT64_C(1) << 49) + 512, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct predicted p[] = { expects(0, CATEGORY_OTHER, rows[i].predicted) };
		struct peak_block row = { rows[i].observed, CATEGORY_OTHER, "" };
		struct observed o[] = { { &row, -1, 0 } };

		match_blocks(p, 1, o, 1);
		assert_int_equal(o[0].term, rows[i].found ? 0 : -1);
		assert_int_equal(p[0].found, rows[i].found);
	}
}

/* Two predicted blocks may both become the larger observed one, one of them only the smaller. */
static void tails_are_given_out_so_that_most_are_found(void **state)
{
	struct predicted p[] = { expects(0, CATEGORY_OTHER, 5 * MIB + MIB / 2),
				 expects(1, CATEGORY_OTHER, 5 * MIB) };
	struct peak_block rows[] = { { 6 * MIB, CATEGORY_OTHER, "" },
				     { 6 * MIB + MIB / 2, CATEGORY_OTHER, "" } };
	struct observed o[] = { { &rows[0], -1, 0 }, { &rows[1], -1, 0 } };

	(void)state;
	match_blocks(p, 2, o, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(o[i].term, o[i].row->bytes == 6 * MIB ? 1 : 0);
}

/* 3 MiB is found as it is, but then nothing is left for 2.25 MiB: it has it, and 3 MiB the block
 * of 4. */
static void an_equal_size_gives_way(void **state)
{
	struct predicted p[] = { expects(0, CATEGORY_OPTIMIZER_STATES, 3 * MIB),
				 expects(1, CATEGORY_OPTIMIZER_STATES, 2359296) };
	struct peak_block rows[] = { { 3 * MIB, CATEGORY_OPTIMIZER_STATES, "" },
				     { 4 * MIB, CATEGORY_OPTIMIZER_STATES, "" } };
	struct observed o[] = { { &rows[0], -1, 0 }, { &rows[1], -1, 0 } };

	(void)state;
	match_blocks(p, 2, o, 2);
	assert_true(p[0].found && p[1].found);
	for (int i = 0; i < 2; i++)
		assert_int_equal(o[i].term, o[i].row->bytes == 4 * MIB ? 0 : 1);
}

static void numbers_differ(void **state)
{
	struct predicted p[5];
	struct peak_block rows[3];
	struct observed o[3];
	int found = 0;

	(void)state;
	for (int i = 0; i < 5; i++)
		p[i] = expects(7, CATEGORY_ACTIVATIONS, 1024);
	for (int i = 0; i < 3; i++) {
		rows[i] = (struct peak_block){ 1024, CATEGORY_ACTIVATIONS, "" };
		o[i] = (struct observed){ &rows[i], -1, 0 };
	}
	match_blocks(p, 5, o, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(o[i].term, 7);
	for (int i = 0; i < 5; i++)
		found += p[i].found;
	assert_int_equal(found, 3);
	match_blocks(p, 0, o, 0);
	match_blocks(NULL, 0, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(category_goes_before_size_alone),
		cmocka_unit_test(another_category_is_better_than_none),
		cmocka_unit_test(tails),
		cmocka_unit_test(tails_are_given_out_so_that_most_are_found),
		cmocka_unit_test(an_equal_size_gives_way),
		cmocka_unit_test(numbers_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
