/* Which blocks are logits, conversions and caches, by snapshots made by hand. */
#include "fixture.h"

#include "metrics/metrics_doubled.h"
#include "metrics/metrics_own.h"
#include "metrics/metrics_head.h"
#include "metrics/metrics_inference.h"
#include "metrics/metrics_larger.h"
#include "metrics/metrics_live.h"
#include "metrics/metrics_replaced.h"
#include "metrics/metrics_sizes.h"

#define MIB (INT64_C(1) << 20)

enum { LOSS_STACK = 1, LAYER, OWN, STACKS };

/* The loss has a block of 100 MiB; five blocks of 200 MiB are copies in fp32 that the job's own
 * code made, or what the layers of the model keep. */
static void copies_of_the_jobs_own_code_are_logits(void **state)
{
	(void)state;
	for (uint32_t stack = LAYER; stack <= OWN; stack++) {
		struct block_group groups[] = {
			{ .stack = LOSS_STACK,
			  .blocks = 1,
			  .smallest = 100 * MIB,
			  .largest = 100 * MIB },
			{ .stack = stack,
			  .blocks = 5,
			  .smallest = 200 * MIB,
			  .largest = 200 * MIB },
		};
		struct snapshot live = { .groups = groups, .count = 2 };
		struct tables tables = { .stack_count = STACKS };
		stack_tags tags[STACKS] = { [LOSS_STACK] = TAGGED(LOSS), [LAYER] = TAGGED(MODEL) };
		struct metrics m = { 0 };
		struct metrics_pass p = { .tables = &tables, .tags = tags };
		struct device_pass d = { .m = &m };

		metrics_find_sizes(&d, &p, &live);
		assert_int_equal(m.logits_block, 100 * MIB);
		assert_int_equal(metrics_is_logits(&d, tags[stack], 200 * MIB), stack == OWN);
		assert_true(metrics_is_logits(&d, tags[LOSS_STACK], 100 * MIB));
	}
}

/* A layer returns 100 MiB, of which a loss of the job's own makes as much, beside labels of
 * one_hot() of 200 MiB. */
static void labels_of_a_loss_of_the_jobs_own_are_wide(void **state)
{
	struct block_group groups[] = {
		{ .stack = LAYER, .blocks = 1, .smallest = 100 * MIB, .largest = 100 * MIB },
		{ .stack = OWN, .blocks = 1, .smallest = 200 * MIB, .largest = 200 * MIB },
	};
	struct snapshot live = { .groups = groups, .count = 2 };
	struct tables tables = { .stack_count = STACKS };
	stack_tags tags[STACKS] = { [LAYER] = TAGGED(LAYER), [OWN] = TAGGED(LOSS_NETWORK) };
	struct metrics m = { 0 };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct failure f = { .stack = OWN, .requested = 100 * MIB };
	struct device_pass d = { .m = &m, .failure = &f };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		groups[i].category = CATEGORY_ACTIVATIONS, groups[i].bytes = groups[i].largest;
	metrics_find_sizes(&d, &p, &live);
	assert_int_equal(m.wide_labels, 200 * MIB);
	assert_int_equal(m.logits_block, 100 * MIB);
	/* A loss that computes in fp32, on 16 bits of the layer, asks for one more such block. */
	f.requested = 200 * MIB;
	d.logits = 0;
	metrics_find_sizes(&d, &p, &live);
	assert_int_equal(m.wide_labels, 0);
	/* Nothing says that it is a loss. */
	f.requested = 100 * MIB;
	tags[OWN] = d.logits = 0;
	metrics_find_sizes(&d, &p, &live);
	assert_int_equal(m.wide_labels, 0);
}

/* Frames 1, 2 and 3 are forward() methods: of a linear layer, of a model that calls it through
 * another module, and of a net beside the model, whose linear layer is no head. */
static void the_head_is_the_outermost_linear_layer(void **state)
{
	static const uint32_t layer[] = { 1, 1, 2 }, head[] = { 1, 2 }, net[] = { 1, 3 };
	static unsigned char kinds[] = { 0, FRAME_FORWARD, FRAME_FORWARD, FRAME_FORWARD };
	static struct mt_frame frames[] = {
		{ 0 }, { .function = 1 }, { .function = 2 }, { .function = 3 }
	};
	static struct stack stacks[STACKS] = {
		[LAYER] = { .frame_count = 3, .frames = layer },
		[LOSS_STACK] = { .frame_count = 3, .frames = layer },
		[OWN] = { .frame_count = 2, .frames = head },
	};
	struct tables tables = { .stack_count = STACKS,
				 .stacks = stacks,
				 .frames = frames,
				 .frame_kinds = kinds,
				 .frame_count = 4 };
	stack_tags tags[STACKS] = {
		[LOSS_STACK] = TAGGED(LINEAR), [LAYER] = TAGGED(LINEAR), [OWN] = TAGGED(LINEAR)
	};
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct failure f = { .stack = OWN, .requested = 180 * MIB };
	struct block_group groups[] = { { .stack = LAYER, .largest = 90 * MIB },
					{ .stack = OWN, .largest = 180 * MIB } };
	struct snapshot live = { .groups = groups, .count = 2 };

	(void)state;
	assert_int_equal(metrics_head_size(&p, &f, &live), 180 * MIB);
	live.count = 1;
	assert_int_equal(metrics_head_size(&p, NULL, &live), 0);
	live.count = 2;
	stacks[OWN].frames = net;
	assert_int_equal(metrics_head_size(&p, &f, &live), 0);
	stacks[OWN].frames = head;
	/* A layer that is called as often as the others is no head. */
	groups[0].blocks = 4;
	groups[1].blocks = 3;
	assert_int_equal(metrics_head_size(&p, &f, &live), 180 * MIB);
	groups[1].blocks = 4;
	assert_int_equal(metrics_head_size(&p, &f, &live), 0);
	groups[1].blocks = 0;
	groups[0].largest = 91 * MIB;
	assert_int_equal(metrics_head_size(&p, &f, &live), 0);
	groups[0].category = groups[1].category = CATEGORY_ACTIVATIONS;
	tags[LAYER] |= TAGGED(MODEL);
	tags[OWN] |= TAGGED(MODEL);
	assert_int_equal(metrics_count_roots(&p, &live), 1);
	stacks[OWN].frames = net;
	assert_int_equal(metrics_count_roots(&p, &live), 2);
	tags[OWN] |= TAGGED(LOSS);
	assert_int_equal(metrics_count_roots(&p, &live), 1);
}

/* A line makes 50 MiB, the next one 100 MiB of it, the backward pass three times as much, and
 * another 100 MiB are asked for: five of 100 MiB, of float64. */
static void tensors_of_twice_the_size_are_doubled(void **state)
{
	static struct stack_info info[STACKS] = {
		[1] = { .flags = STACK_FRAMES }, [2] = { .flags = STACK_FRAMES }
	};
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	struct metrics_pass p = { .tables = &tables };
	static struct stack_levels levels[STACKS];
	struct metrics m = { 0 };
	struct failure f = { .requested = 100 * MIB };
	struct device_pass d = { .m = &m, .failure = &f, .stacks = levels };
	struct block_group groups[] = {
		{ .stack = 1,
		  .blocks = 1,
		  .smallest = 50 * MIB,
		  .largest = 50 * MIB,
		  .category = CATEGORY_INPUTS },
		{ .stack = 2,
		  .blocks = 1,
		  .smallest = 100 * MIB,
		  .largest = 100 * MIB,
		  .category = CATEGORY_ACTIVATIONS },
		{ .blocks = 4, /* of the backward pass, one of them small */
		  .alike = 3,
		  .smallest = 1 * MIB,
		  .largest = 100 * MIB,
		  .category = CATEGORY_TEMPORARIES },
	};
	struct snapshot live = { .groups = groups, .count = 3 };

	(void)state;
	metrics_find_doubled(&p, &d, &live);
	assert_int_equal(m.doubled, 500 * MIB);
	assert_int_equal(m.doubled_blocks, 5);
	/* The smaller ones come later, or are as many: the larger ones are no conversion of them.
	 */
	m.doubled = 0;
	groups[0].blocks = 5;
	metrics_find_doubled(&p, &d, &live);
	groups[0].blocks = 1;
	groups[0].stack = 2;
	groups[1].stack = 1;
	metrics_find_doubled(&p, &d, &live);
	assert_int_equal(m.doubled, 0);
	/* Fifty small blocks of the same line as a large one. */
	groups[0].stack = 1;
	groups[1].stack = 2;
	groups[1].blocks = 51;
	groups[1].smallest = MIB;
	groups[2].blocks = 0;
	metrics_find_doubled(&p, &d, &live);
	assert_int_equal(m.doubled, 0);
}

/* The job's own tensor has 100 MiB, and a layer makes 30 MiB. Its gradient has its size; a gradient
 * of the layer's output, one of a parameter of 40 MiB and cuBLAS's workspace have not. */
static void the_backward_pass_has_gradients_of_all_sizes(void **state)
{
	static struct stack_info info[STACKS] = { [OWN] = { .flags = STACK_FRAMES },
						  [LAYER] = { .flags = STACK_FRAMES |
								       STACK_MODULE } };
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	stack_tags tags[STACKS] = { [LAYER] = TAGGED(MODEL) };
	struct metrics_pass p = { .tables = &tables,
				  .tags = tags,
				  .workspaces = { .sizes = { 32 * MIB } } };
	struct metrics m = { .layer_output = 30 * MIB };
	struct device device = { 0 };
	struct device_pass d = { .m = &m, .device = &device, .huge = 100 * MIB };
	struct size_counts *parameters = &device.at_peak.parameters;

	(void)state;
	size_counts_add(parameters, 40 * MIB);
	size_counts_sort(parameters);
	assert_true(metrics_is_huge(&p, &d, OWN, 100 * MIB));
	assert_true(metrics_is_huge(&p, &d, OWN, 32 * MIB));
	assert_false(metrics_is_huge(&p, &d, LAYER, 30 * MIB));
	assert_true(metrics_is_huge(&p, &d, LAYER, 60 * MIB));
	assert_true(metrics_is_huge(&p, &d, 0, 100 * MIB));
	assert_true(metrics_is_huge(&p, &d, 0, 50 * MIB));
	assert_false(metrics_is_huge(&p, &d, 0, 40 * MIB));
	assert_false(metrics_is_huge(&p, &d, 0, 32 * MIB));
	assert_false(metrics_is_huge(&p, &d, 0, 30 * MIB));
	size_counts_release(parameters);
}

/* The model is called from two lines in each step. The later call begins with the block that is
 * refused in the second step: its stack has made blocks in the first step, and none in this one. */
static void a_line_whose_first_block_is_refused_is_not_new(void **state)
{
	static struct stack_info info[STACKS];
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	stack_tags tags[STACKS] = { 0 };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct stack_levels levels[STACKS] = {
		[1] = { .last_step = 2, .now = MIB, .before = MIB, .blocks = 2 },
		[2] = { .last_step = 1, .now = MIB, .blocks = 1 },
	};
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels, .step = 1 };
	struct snapshot live = { .passes = { .again = MIB, .first_stack = 1, .again_stack = 2 } };

	(void)state;
	metrics_what_is_live(&p, &d, &live);
	assert_false(m.again_was_new);
	assert_false(m.again_is_new);
	/* It is new if the step before had no such line, whether its block was refused or not. */
	levels[2] = (struct stack_levels){ 0 };
	metrics_what_is_live(&p, &d, &live);
	assert_true(m.again_is_new);
	levels[2] = (struct stack_levels){ .last_step = 2, .now = MIB, .blocks = 1 };
	metrics_what_is_live(&p, &d, &live);
	assert_true(m.again_is_new);
}

/* The later call has made three blocks of its first layer, and freed none: whether it keeps a graph
 * is open. When it has freed one, it is under no_grad(). */
static void a_call_that_has_freed_nothing_may_keep_a_graph(void **state)
{
	static struct stack_info info[STACKS];
	struct tables tables = { .stack_count = STACKS, .stack_info = info };
	stack_tags tags[STACKS] = { 0 };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct stack_levels levels[STACKS] = {
		[1] = { .last_step = 1, .now = 8 * MIB, .held = 32 * MIB, .blocks = 4 },
		[2] = { .last_step = 1, .now = 8 * MIB, .held = 9 * MIB, .blocks = 3 },
	};
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels };
	struct snapshot live = { .passes = { .again = MIB, .first_stack = 1, .again_stack = 2 } };

	(void)state;
	metrics_what_is_live(&p, &d, &live);
	assert_false(m.again_freed);
	levels[2].freed = 1;
	metrics_what_is_live(&p, &d, &live);
	assert_true(m.again_freed);
}

/* The job's own code has replaced a tensor of 4 MiB by one of 8 and one of 12 MiB. */
static void a_tensor_between_calls_grows(void **state)
{
	struct tables tables = { .stack_count = STACKS };
	stack_tags tags[STACKS] = { 0 };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct stack_levels levels[STACKS] = { [OWN] = { .blocks = 3,
							 .block_rises = 2,
							 .freed = 2,
							 .live = 12 * MIB,
							 .tallest = 12 * MIB,
							 .grown_first = 4 * MIB } };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels };
	struct snapshot live = { 0 };

	(void)state;
	metrics_find_growing(&p, &d, &live);
	assert_int_equal(m.growing, 0);
	live.inference.is_inference = 1;
	levels[OWN].block_rises = 1;
	metrics_find_growing(&p, &d, &live);
	assert_int_equal(m.growing, 0);
	levels[OWN].block_rises = 2;
	/* Both are there: a matrix, and what is computed of it. */
	levels[OWN].freed = 0;
	metrics_find_growing(&p, &d, &live);
	assert_int_equal(m.growing, 0);
	levels[OWN].freed = 2;
	metrics_find_growing(&p, &d, &live);
	assert_int_equal(m.growing, 12 * MIB);
}

/* A first pass under a name of prediction: six lines of the model have blocks of several layers. */
static void six_lines_of_layers_are_a_graph(void **state)
{
	struct metrics m = {
		.in_forward = 1, .run_evaluates = 1, .run_layer_stacks = 5, .run_live = MIB
	};
	struct device_pass d = { .m = &m };

	(void)state;
	metrics_find_predictions(&d);
	assert_int_equal(m.unused_graph, 0);
	assert_true(m.predicts_all);
	m.predicts_all = 0;
	m.run_layer_stacks = 6;
	metrics_find_predictions(&d);
	assert_int_equal(m.unused_graph, MIB);
	assert_false(m.predicts_all);
}

/* A set of 900 MiB beside 20 MiB of other inputs; or a matrix, of which another input was made. */
static void one_large_input_is_data(void **state)
{
	struct metrics m = { .huge = 900 * MIB,
			     .huge_sum = 900 * MIB,
			     .huge_own = 900 * MIB,
			     .huge_blocks = 1,
			     .huge_stack = OWN,
			     .requested = 30 * MIB,
			     .batch_inputs = 920 * MIB };

	(void)state;
	metrics_find_one_input(&m);
	assert_int_equal(m.data, 900 * MIB);
	assert_int_equal(m.data_stack, OWN);
	m.data = 0;
	m.batch_inputs = 1200 * MIB;
	metrics_find_one_input(&m);
	assert_int_equal(m.data, 0);
	/* What was asked for is of that kind. */
	m.batch_inputs = 920 * MIB;
	m.requested = 450 * MIB;
	metrics_find_one_input(&m);
	assert_int_equal(m.data, 0);
}

/* logits.float() behind an evaluation: 16 bits of 250 MiB were its result, and no step's. */
static void what_is_computed_of_a_result_is_of_its_evaluation(void **state)
{
	const struct metrics behind = { .in_forward = 1,
					.run_evaluates = 1,
					.left = 250 * MIB,
					.never_used = 250 * MIB,
					.left_blocks = 1,
					.requested = 500 * MIB };
	struct metrics m = behind;

	(void)state;
	metrics_find_result(&m);
	assert_true(m.in_evaluation && !m.left && !m.left_blocks);
	/* A training step has begun. */
	m = behind;
	m.run_trains = 1;
	metrics_find_result(&m);
	assert_false(m.in_evaluation);
	m = behind;
	m.requested = 300 * MIB;
	metrics_find_result(&m);
	assert_false(m.in_evaluation);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_of_a_loss_of_the_jobs_own_are_wide),
		cmocka_unit_test(the_head_is_the_outermost_linear_layer),
		cmocka_unit_test(tensors_of_twice_the_size_are_doubled),
		cmocka_unit_test(the_backward_pass_has_gradients_of_all_sizes),
		cmocka_unit_test(copies_of_the_jobs_own_code_are_logits),
		cmocka_unit_test(six_lines_of_layers_are_a_graph),
		cmocka_unit_test(a_tensor_between_calls_grows),
		cmocka_unit_test(a_line_whose_first_block_is_refused_is_not_new),
		cmocka_unit_test(a_call_that_has_freed_nothing_may_keep_a_graph),
		cmocka_unit_test(one_large_input_is_data),
		cmocka_unit_test(what_is_computed_of_a_result_is_of_its_evaluation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
