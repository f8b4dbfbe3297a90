/* Blocks that remain after each step, from lists of blocks written by hand. */
#include "metrics/metrics_leaks.h"
#include "attribution/attribution.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)

enum { COPY = 1, FORWARD, CALL, COPY_ON, MAKE, FRAMES };
enum { LEAK = 1, HOOK, INSIDE, STORED, STORED_ON, MADE, STACKS };

static const unsigned char kinds[FRAMES] = {
	[FORWARD] = FRAME_FORWARD, [CALL] = FRAME_MODULE_CALL
};
/* Innermost first: the model; a function that the model's call runs; one that its forward() calls.
 */
static const uint32_t frames[STACKS][3] = {
	[LEAK] = { FORWARD, CALL }, [HOOK] = { COPY, CALL },   [INSIDE] = { COPY, FORWARD, CALL },
	[STORED] = { COPY },        [STORED_ON] = { COPY_ON }, [MADE] = { MAKE }
};
/* Two lines of one function, and a constructor. */
static struct mt_frame functions[FRAMES] = { [COPY] = { .function = 1, .line = 10 },
					     [FORWARD] = { .function = 2 },
					     [CALL] = { .function = 3 },
					     [COPY_ON] = { .function = 1, .line = 11 },
					     [MAKE] = { .function = 4 } };
static struct stack all[STACKS] = { [LEAK] = { .frame_count = 2, .frames = frames[LEAK] },
				    [HOOK] = { .frame_count = 2, .frames = frames[HOOK] },
				    [INSIDE] = { .frame_count = 3, .frames = frames[INSIDE] },
				    [STORED] = { .frame_count = 1, .frames = frames[STORED] },
				    [STORED_ON] = { .frame_count = 1, .frames = frames[STORED_ON] },
				    [MADE] = { .frame_count = 1, .frames = frames[MADE] } };
static struct stack_info infos[STACKS] = { [LEAK] = { .model_hash = 1 },
					   [HOOK] = { .model_hash = 2 },
					   [INSIDE] = { .model_hash = 3 },
					   [MADE] = { .flags = STACK_INIT } };
static const struct tables tables = { .stacks = all,
				      .stack_info = infos,
				      .stack_count = STACKS,
				      .frames = functions,
				      .frame_count = FRAMES,
				      .frame_kinds = (unsigned char *)kinds };

/* The metrics in the fifth step. A stack has made a block of 10 MiB in each step up to it, from the
 * one of age `oldest` on, and 6 MiB in this step. */
static struct metrics in_the_fifth_step(uint32_t stack, uint16_t oldest)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { 0 };
	struct failure f = { 0 };
	struct device_pass d = { .m = &m, .stacks = stacks, .step = 4, .failure = &f };
	struct surviving_block blocks[8];
	size_t count = 0;

	for (uint16_t age = 0; age <= oldest; age++)
		blocks[count++] = (struct surviving_block){ .stack = stack,
							    .age = age,
							    .size = age ? 10 * MIB : 6 * MIB };
	metrics_find_leaks(&tables, &d, blocks, count);
	return m;
}

/* The first step has its block: those of this step are its own, which it may need. */
static void a_step_may_need_its_own_blocks(void **state)
{
	struct metrics m = in_the_fifth_step(LEAK, 4);

	(void)state;
	assert_int_equal(m.leak_bytes, 40 * MIB);
	assert_int_equal(m.leak_now, 0);
}

/* The first step has none, since its block was made behind it and counts as the second one's: those
 * of this step are the fourth one's. */
static void what_follows_a_step_counts_as_the_next_ones(void **state)
{
	struct metrics m = in_the_fifth_step(LEAK, 3);

	(void)state;
	assert_int_equal(m.leak_bytes, 30 * MIB);
	assert_int_equal(m.leak_now, 6 * MIB);
}

/* Beside what the fourth step has left, the line is making 6 MiB more in this one. */
static void a_step_needs_what_is_more_than_any_has_left(void **state)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { 0 };
	struct failure f = { 0 };
	struct device_pass d = { .m = &m, .stacks = stacks, .step = 4, .failure = &f };
	struct surviving_block blocks[] = {
		{ .stack = LEAK, .size = 6 * MIB },
		{ .stack = LEAK, .size = 10 * MIB },
		{ .stack = LEAK, .age = 1, .size = 10 * MIB },
		{ .stack = LEAK, .age = 2, .size = 10 * MIB },
		{ .stack = LEAK, .age = 3, .size = 10 * MIB },
	};

	(void)state;
	metrics_find_leaks(&tables, &d, blocks, 5);
	assert_int_equal(m.leak_bytes, 30 * MIB);
	assert_int_equal(m.leak_now, 10 * MIB);
}

/* A constructor's objects stay. The newest is in use; where this step has made one, that is. */
static void the_newest_of_what_constructors_make_is_in_use(void **state)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = stacks, .step = 4 };
	struct surviving_block blocks[] = {
		{ .stack = MADE, .age = 1, .size = 8 * MIB },
		{ .stack = MADE, .age = 2, .size = 10 * MIB },
		{ .stack = MADE, .age = 3, .size = 10 * MIB },
	};

	(void)state;
	metrics_find_leaks(&tables, &d, blocks, 3);
	assert_int_equal(m.leak_bytes, 28 * MIB);
	assert_int_equal(m.leak_in_use, 8 * MIB);
	assert_int_equal(in_the_fifth_step(MADE, 4).leak_in_use, 0);
	assert_int_equal(in_the_fifth_step(LEAK, 4).leak_in_use, 0);
}

/* The fifth step has 6 MiB of its own 10, and asks for the rest; or for a tensor of another line of
 * the same function, from which it would make it. */
static void a_step_may_fail_while_it_stores(void **state)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { 0 };
	struct failure f = { .stack = STORED, .requested = 4 * MIB };
	struct device_pass d = { .m = &m, .stacks = stacks, .step = 4, .failure = &f };
	struct surviving_block blocks[] = {
		{ .stack = STORED, .size = 6 * MIB },
		{ .stack = STORED, .size = 10 * MIB },
		{ .stack = STORED, .age = 1, .size = 10 * MIB },
		{ .stack = STORED, .age = 2, .size = 10 * MIB },
		{ .stack = STORED, .age = 3, .size = 10 * MIB },
	};

	(void)state;
	metrics_find_leaks(&tables, &d, blocks, 5);
	assert_int_equal(m.leak_bytes, 30 * MIB);
	assert_int_equal(m.leak_now, 10 * MIB);
	assert_true(m.leak_storing);
	m = (struct metrics){ 0 };
	f.stack = STORED_ON;
	metrics_find_leaks(&tables, &d, blocks, 5);
	assert_true(m.leak_storing);
	m = (struct metrics){ 0 };
	f.stack = MADE;
	metrics_find_leaks(&tables, &d, blocks, 5);
	assert_false(m.leak_storing);
	assert_false(in_the_fifth_step(STORED, 3).leak_storing);
	/* What is larger than a step has ever left is something else; and a damaged trace may have
	 * any number for a stack. */
	f.stack = STORED;
	f.requested = 20 * MIB;
	m = (struct metrics){ 0 };
	metrics_find_leaks(&tables, &d, blocks, 5);
	assert_false(m.leak_storing);
	f.stack = 100000000;
	metrics_find_leaks(&tables, &d, blocks, 5);
}

/* Five backward passes have left gradients of this size beside parameters of 50 MiB, and with each
 * a forward pass of 10 MiB stayed. */
static struct metrics passes_kept(bytes gradients, stack_tags tags)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { .failed = 1,
			     .tags = tags,
			     .parameters = 50 * MIB,
			     .passes_kept = 4,
			     .kept = 40 * MIB };
	struct failure f = { 0 };
	struct device device = { .outlived = gradients };
	struct device_pass d = {
		.m = &m, .stacks = stacks, .step = 4, .count = 4, .failure = &f, .device = &device
	};
	struct surviving_block blocks[8];
	size_t count = 0;

	for (uint16_t age = 0; age <= 4; age++)
		blocks[count++] = (struct surviving_block){ .stack = LEAK,
							    .age = age,
							    .size = age ? 10 * MIB : 6 * MIB };
	metrics_find_leaks(&tables, &d, blocks, count);
	return m;
}

static void derivatives_of_inputs_are_within_one_loss(void **state)
{
	struct metrics m = passes_kept(5 * MIB, 0);

	(void)state;
	assert_true(m.within_loss);
	assert_int_equal(m.waiting, 40 * MIB);
	assert_int_equal(m.passes_waiting, 4);
	assert_int_equal(m.kept, 0);
	assert_int_equal(m.leak_bytes, 0);
	m = passes_kept(200 * MIB, 0);
	assert_false(m.within_loss);
	assert_int_equal(m.kept, 40 * MIB);
	assert_int_equal(m.leak_bytes, 40 * MIB);
	assert_false(passes_kept(5 * MIB, TAGGED(OPTIMIZER)).within_loss);
}

/* A hook's copies are no activations, and this step would have had 10 MiB of them too. */
static void the_copies_of_a_hook_are_needed_by_no_step(void **state)
{
	(void)state;
	assert_int_equal(in_the_fifth_step(HOOK, 4).leak_now, 10 * MIB);
	assert_int_equal(in_the_fifth_step(INSIDE, 4).leak_now, 0);
}

/* A buffer of observations, which no model made. */
static void the_jobs_own_code_stores_what_no_model_made(void **state)
{
	(void)state;
	assert_int_equal(in_the_fifth_step(STORED, 4).leak_stored, 40 * MIB);
	assert_int_equal(in_the_fifth_step(LEAK, 4).leak_stored, 0);
	for (size_t i = 0; i < STACKS; i++)
		infos[i].model_hash = 0;
	assert_int_equal(in_the_fifth_step(STORED, 4).leak_stored, 0);
}

/* An evaluation of twelve calls keeps a prediction of 3 MiB and labels of 6 MiB of each; then come
 * tensors of these sizes. */
static struct metrics joined(bytes first, bytes request)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { .data = first, .data_stack = STORED };
	struct failure f = { .stack = STORED, .requested = request };
	struct device_pass d = { .m = &m, .stacks = stacks, .failure = &f, .backward_seen = 1 };
	struct surviving_block blocks[25];

	for (size_t i = 0; i < 24; i++)
		blocks[i] = (struct surviving_block){ .stack = INSIDE,
						      .in_run = 1,
						      .size = (i % 2 ? 6 : 3) * MIB };
	blocks[24] = (struct surviving_block){ .stack = STORED, .in_run = 1, .size = first };
	metrics_find_leaks(&tables, &d, blocks, 25);
	return m;
}

static void results_that_are_put_together_are_no_data(void **state)
{
	struct metrics m = joined(72 * MIB, 50 * MIB);

	(void)state;
	assert_int_equal(m.run_repeats, 24);
	assert_int_equal(m.run_repeat_bytes, 108 * MIB);
	assert_int_equal(m.joined, 122 * MIB);
	assert_int_equal(m.data, 0);
	/* All of them in one; and another size. */
	assert_int_equal(joined(50 * MIB, 108 * MIB).joined, 158 * MIB);
	m = joined(50 * MIB, 60 * MIB);
	assert_int_equal(m.joined, 0);
	assert_int_equal(m.data, 50 * MIB);
}

/* The allocator has left up to 1 MiB more with a third of the blocks than with the others. */
static void blocks_of_equal_results_differ_a_little(void **state)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { 0 };
	struct failure f = { .stack = STORED, .requested = 12 * 31 * MIB };
	struct device_pass d = { .m = &m, .stacks = stacks, .failure = &f, .backward_seen = 1 };
	struct surviving_block blocks[12];

	(void)state;
	for (size_t i = 0; i < 12; i++)
		blocks[i] = (struct surviving_block){ .stack = INSIDE,
						      .in_run = 1,
						      .size = (i < 8 ? 31 : 32) * MIB };
	metrics_find_leaks(&tables, &d, blocks, 12);
	assert_int_equal(m.joined, 12 * 31 * MIB);
	assert_int_equal(m.run_repeats, 12);
}

/* A loop of twelve rounds around calls of a small model, before any backward pass. */
static int64_t own_stacks_of(int64_t calls, int backward_seen)
{
	struct stack_levels stacks[STACKS] = { 0 };
	struct metrics m = { .run_calls = calls };
	struct device_pass d = { .m = &m, .stacks = stacks, .backward_seen = backward_seen };
	struct surviving_block blocks[12];

	for (size_t i = 0; i < 12; i++)
		blocks[i] = (struct surviving_block){ .stack = STORED, .size = MIB };
	metrics_find_leaks(&tables, &d, blocks, 12);
	return m.run_own_stacks;
}

static void a_loop_before_any_backward_pass_keeps_its_rounds(void **state)
{
	(void)state;
	infos[STORED].flags = STACK_FRAMES;
	assert_int_equal(own_stacks_of(12, 0), 1);
	/* A model that was not called in between; a later run, which another count shows. */
	assert_int_equal(own_stacks_of(0, 0), 0);
	assert_int_equal(own_stacks_of(12, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_may_need_its_own_blocks),
		cmocka_unit_test(the_jobs_own_code_stores_what_no_model_made),
		cmocka_unit_test(the_copies_of_a_hook_are_needed_by_no_step),
		cmocka_unit_test(derivatives_of_inputs_are_within_one_loss),
		cmocka_unit_test(what_follows_a_step_counts_as_the_next_ones),
		cmocka_unit_test(a_step_needs_what_is_more_than_any_has_left),
		cmocka_unit_test(the_newest_of_what_constructors_make_is_in_use),
		cmocka_unit_test(a_step_may_fail_while_it_stores),
		cmocka_unit_test(results_that_are_put_together_are_no_data),
		cmocka_unit_test(blocks_of_equal_results_differ_a_little),
		cmocka_unit_test(a_loop_before_any_backward_pass_keeps_its_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
