/* Which blocks are out of proportion, by snapshots made by hand. */
#include "fixture.h"

#include "metrics/metrics_live.h"

#define MIB (INT64_C(1) << 20)

enum { LAYER = 2, OWN, STACKS };

/* A linear layer of 400 MiB, and its activation function asks for as much: in proportion. The job's
 * own code asks for it: out of proportion to the blocks of 50 MiB beside it. */
static void an_activation_function_is_in_proportion(void **state)
{
	static struct stack_info info[STACKS] = { [LAYER] = { .flags =
								      STACK_FRAMES | STACK_MODULE },
						  [OWN] = { .flags = STACK_FRAMES } };
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	stack_tags tags[STACKS] = { [1] = TAGGED(LINEAR) | TAGGED(MODEL), [LAYER] = TAGGED(MODEL) };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct metrics m = { 0 };
	struct failure f = { .stack = LAYER, .requested = 400 * MIB };
	struct device_pass d = { .m = &m, .failure = &f };
	struct block_group groups[] = {
		{ .stack = 1,
		  .blocks = 1,
		  .bytes = 400 * MIB,
		  .largest = 400 * MIB,
		  .category = CATEGORY_ACTIVATIONS },
		{ .stack = LAYER,
		  .blocks = 1,
		  .bytes = 50 * MIB,
		  .largest = 50 * MIB,
		  .category = CATEGORY_ACTIVATIONS },
	};
	struct snapshot live = { .groups = groups, .count = 2 };

	(void)state;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge, 50 * MIB);
	assert_int_equal(m.huge_sum, 0);
	f.stack = OWN;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge, 400 * MIB);
	assert_int_equal(m.huge_sum, 400 * MIB);
}

/* The model's first two layers have made 400 MiB each, by a convolution and element by element. The
 * job's own code has an input of 450 MiB: it alone is larger than what a layer makes. */
static void what_is_as_large_as_a_layers_output_is_in_proportion(void **state)
{
	static struct stack_info info[STACKS] = { [1] = { .flags = STACK_FRAMES | STACK_MODULE },
						  [LAYER] = { .flags =
								      STACK_FRAMES | STACK_MODULE },
						  [OWN] = { .flags = STACK_FRAMES } };
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	stack_tags tags[STACKS] = { [1] = TAGGED(LAYER) | TAGGED(MODEL), [LAYER] = TAGGED(MODEL) };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m };
	struct block_group groups[] = {
		{ .stack = 1, .blocks = 2, .bytes = 800 * MIB, .largest = 400 * MIB },
		{ .stack = LAYER, .blocks = 2, .bytes = 800 * MIB, .largest = 400 * MIB },
		{ .stack = OWN, .blocks = 1, .bytes = 450 * MIB, .largest = 450 * MIB },
	};
	struct snapshot live = { .groups = groups, .count = 2 };

	(void)state;
	for (size_t i = 0; i < 3; i++)
		groups[i].category = CATEGORY_ACTIVATIONS;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge_sum, 0);
	live.count = 3;
	m = (struct metrics){ 0 };
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge, 450 * MIB);
	assert_int_equal(m.huge_sum, 450 * MIB);
	assert_int_equal(m.huge_blocks, 1);
	assert_int_equal(m.in_proportion, 4);
	/* A tensor of the model that is larger than its layers' outputs. */
	groups[1].largest = 410 * MIB;
	m = (struct metrics){ 0 };
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge_sum, 1250 * MIB);
}

/* The model's first layers have made 100 MiB each; a request of 300 MiB is of a wider layer, one of
 * 500 MiB is out of proportion, and one of 32 MiB a product's workspace, where that has this size.
 */
static void a_request_may_be_of_a_wider_layer_or_a_workspace(void **state)
{
	static struct stack_info info[STACKS] = { [LAYER] = { .flags =
								      STACK_FRAMES | STACK_MODULE },
						  [OWN] = { .flags = STACK_FRAMES } };
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	stack_tags tags[STACKS] = { [LAYER] = TAGGED(LAYER) | TAGGED(MODEL) };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct metrics m = { 0 };
	struct failure f = { .stack = LAYER, .requested = 300 * MIB };
	struct device_pass d = { .m = &m, .failure = &f };
	struct block_group groups[] = { { .stack = LAYER,
					  .blocks = 2,
					  .bytes = 200 * MIB,
					  .largest = 100 * MIB,
					  .category = CATEGORY_ACTIVATIONS } };
	struct snapshot live = { .groups = groups, .count = 1 };

	(void)state;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge_sum, 0);
	f.requested = 500 * MIB;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge_sum, 500 * MIB);
	m = (struct metrics){ 0 };
	f = (struct failure){ .stack = OWN, .requested = 32 * MIB };
	live.count = 0;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge_sum, 32 * MIB);
	m = (struct metrics){ 0 };
	p.workspaces.sizes[0] = 32 * MIB;
	metrics_find_huge(&d, &p, &live);
	assert_int_equal(m.huge_sum, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_activation_function_is_in_proportion),
		cmocka_unit_test(what_is_as_large_as_a_layers_output_is_in_proportion),
		cmocka_unit_test(a_request_may_be_of_a_wider_layer_or_a_workspace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
