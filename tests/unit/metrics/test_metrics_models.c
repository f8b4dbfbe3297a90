/* Models that were moved to the device by lines of their own, and a network in the loss. */
#include "fixture.h"

#include "metrics/metrics_models.h"

#define MIB (INT64_C(1) << 20)

enum { TEACHER_LINE = 1, STUDENT_LINE, HEAD_LINE, CUDA, CUDA_TABLE, VGG_FORWARD, FRAMES };
enum {
	TEACHER = 1,
	TEACHER_TABLE,
	STUDENT,
	HEAD,
	MODEL_LAYER,
	LOSS_LAYER,
	LOSS_ITSELF,
	NORM,
	DROP,
	VGG,
	ENCODES,
	DECODES,
	TEACHES,
	TEACHES_ON,
	ACTS,
	DISTILLED,
	STACKS
};

/* PyTorch's own frames differ by the kind of the parameter. */
static const uint32_t teacher[] = { CUDA, TEACHER_LINE }, table[] = { CUDA_TABLE, TEACHER_LINE },
		      student[] = { CUDA, STUDENT_LINE }, head[] = { CUDA, HEAD_LINE },
		      vgg[] = { CUDA, VGG_FORWARD };
static unsigned char kinds[FRAMES] = {
	[CUDA] = FRAME_LIBRARY, [CUDA_TABLE] = FRAME_LIBRARY, [VGG_FORWARD] = FRAME_FORWARD
};
static struct str strings[] = { { 0 }, { "Vgg16.forward", 13 } };
static struct mt_frame frames[FRAMES] = { [VGG_FORWARD] = { .function = 1 } };
static struct stack stacks[STACKS] = {
	[TEACHER] = { .frame_count = 2, .frames = teacher },
	[TEACHER_TABLE] = { .frame_count = 2, .frames = table },
	[STUDENT] = { .frame_count = 2, .frames = student },
	[HEAD] = { .frame_count = 2, .frames = head },
	[VGG] = { .frame_count = 2, .frames = vgg },
};
#define MOVED                                                     \
	{                                                         \
		.flags = (uint32_t)HINT_APPLY << STACK_HINT_SHIFT \
	}
static struct stack_info info[STACKS] = {
	[TEACHER] = MOVED, [TEACHER_TABLE] = MOVED, [STUDENT] = MOVED, [HEAD] = MOVED
};
static stack_tags tags[STACKS] = {
	[MODEL_LAYER] = TAGGED(MODEL) | TAGGED(LAYER),
	[LOSS_LAYER] = TAGGED(MODEL) | TAGGED(LOSS_NETWORK) | TAGGED(LAYER),
	[LOSS_ITSELF] = TAGGED(MODEL) | TAGGED(LOSS_NETWORK),
	[VGG] = TAGGED(MODEL),
	[ENCODES] = TAGGED(MODEL) | TAGGED(ENCODER),
	[DECODES] = TAGGED(MODEL) | TAGGED(DECODER),
	[TEACHES] = TAGGED(MODEL) | TAGGED(UNTRAINED),
	[TEACHES_ON] = TAGGED(MODEL) | TAGGED(UNTRAINED),
	[ACTS] = TAGGED(MODEL) | TAGGED(ROLLOUT),
	[DISTILLED] = TAGGED(MODEL) | TAGGED(DISTILS),
};

static struct stack_levels levels[STACKS];
static uint8_t made_nodes[STACKS];

/* 800 MiB are activations, 500 of them of a call after which another line called a model. */
static struct metrics found(struct block_group *groups, size_t count, size_t callers)
{
	const struct tables t = { .stack_count = STACKS,
				  .stacks = stacks,
				  .frames = frames,
				  .frame_kinds = kinds,
				  .frame_count = FRAMES,
				  .stack_info = info,
				  .strings = strings,
				  .string_count = 2 };
	const struct snapshot live = { .groups = groups,
				       .count = count,
				       .by_category[CATEGORY_ACTIVATIONS] = 800 * MIB };
	struct metrics_pass p = { .tables = &t, .tags = tags, .grad_modes.stacks = made_nodes };
	struct metrics m = { .again = 500 * MIB, .again_is_new = 1, .again_was_new = 1 };
	struct device_pass d = { .m = &m, .pending.count = callers, .stacks = levels };

	metrics_find_models(&p, &d, &live);
	return m;
}

static struct block_group parameters(uint32_t stack, uint64_t blocks)
{
	return (struct block_group){ .stack = stack,
				     .category = CATEGORY_PARAMETERS,
				     .blocks = blocks,
				     .bytes = (bytes)blocks * MIB };
}

static void models_have_lines_of_their_own(void **state)
{
	struct block_group groups[] = { parameters(TEACHER, 3), parameters(TEACHER_TABLE, 1),
					parameters(STUDENT, 4), parameters(HEAD, 2) };
	struct metrics m = found(groups, 4, 1);

	(void)state;
	assert_int_equal(m.moved_models, 2);
	assert_int_equal(m.first_model, 800 * MIB);
	/* Two lines have called models, and not of one class as far as that is known. */
	assert_int_equal(found(groups, 4, 2).first_model, 0);
	m = found(groups, 2, 2);
	assert_int_equal(m.moved_models, 1);
	assert_int_equal(m.first_model, 0);
	/* Three parameters, and two of a head: no model. */
	groups[0] = groups[3];
	assert_int_equal(found(groups, 2, 1).moved_models, 0);
}

static struct block_group kept(uint32_t stack, bytes size)
{
	return (struct block_group){
		.stack = stack, .category = CATEGORY_ACTIVATIONS, .blocks = 1, .bytes = size
	};
}

static void a_network_in_the_loss_is_beside_the_model(void **state)
{
	struct block_group groups[] = { kept(LOSS_LAYER, 60 * MIB), kept(LOSS_ITSELF, 5 * MIB),
					kept(MODEL_LAYER, 30 * MIB) };

	(void)state;
	levels[LOSS_LAYER].blocks = 1;
	assert_int_equal(found(groups, 3, 1).loss_network, 65 * MIB);
	/* Its layers' own outputs are freed behind an activation function. */
	assert_int_equal(found(groups + 1, 2, 1).loss_network, 5 * MIB);
	/* A model that computes its loss itself has nothing beside it. */
	assert_int_equal(found(groups, 2, 1).loss_network, 0);
	/* A loss without layers is no network. */
	levels[LOSS_LAYER].blocks = 0;
	assert_int_equal(found(groups + 1, 2, 1).loss_network, 0);
}

static void two_models_of_one_class_may_be_teacher_and_student(void **state)
{
	struct block_group groups[] = { parameters(TEACHER, 4), parameters(STUDENT, 4),
					kept(VGG, 60 * MIB) };

	(void)state;
	assert_int_equal(found(groups, 3, 2).first_model, 500 * MIB);
	/* One model, which two lines call. */
	assert_int_equal(found(groups + 1, 2, 2).first_model, 0);
}

static void a_vgg_beside_the_model_is_a_losss(void **state)
{
	struct block_group groups[] = { kept(VGG, 60 * MIB), kept(MODEL_LAYER, 30 * MIB) };

	(void)state;
	assert_int_equal(found(groups, 2, 1).loss_network, 60 * MIB);
	/* A classifier. */
	assert_int_equal(found(groups, 1, 1).loss_network, 0);
}

static void an_encoder_of_latents_is_not_trained(void **state)
{
	struct block_group groups[] = { kept(ENCODES, 60 * MIB), kept(MODEL_LAYER, 30 * MIB),
					kept(DECODES, 10 * MIB) };

	(void)state;
	assert_int_equal(found(groups, 2, 2).first_model, 60 * MIB);
	/* The autoencoder is what the job trains. */
	assert_int_equal(found(groups, 3, 2).first_model, 0);
}

static struct block_group kept_blocks(uint32_t stack, uint64_t blocks)
{
	struct block_group g = kept(stack, (bytes)blocks * 40 * MIB);

	g.blocks = blocks;
	return g;
}

/* Few blocks may be of the layer that runs, without a graph. Those of one line of a teacher are the
 * features that it returns, if the blocks of its other lines are gone. */
static void names_tell_a_teacher_and_a_rollout(void **state)
{
	struct block_group groups[] = { kept_blocks(TEACHES, 8), kept_blocks(ACTS, 12),
					kept_blocks(MODEL_LAYER, 9), kept_blocks(TEACHES_ON, 2) };
	struct metrics m = found(groups, 4, 1);

	(void)state;
	assert_int_equal(m.teacher_graph, 400 * MIB);
	assert_int_equal(m.rollout_graph, 480 * MIB);
	assert_int_equal(found(groups, 3, 1).teacher_graph, 320 * MIB);
	levels[TEACHES_ON].blocks = 4;
	assert_int_equal(found(groups, 3, 1).teacher_graph, 0);
	levels[TEACHES_ON].blocks = 0;
	groups[0] = kept_blocks(TEACHES, 4);
	groups[1] = kept_blocks(ACTS, 4);
	m = found(groups, 3, 1);
	assert_int_equal(m.teacher_graph + m.rollout_graph, 0);
}

/* Two calls of one class, of which the earlier one keeps 500 MiB. */
static void the_larger_model_of_a_distillation_is_the_teacher(void **state)
{
	struct block_group groups[] = { kept_blocks(DISTILLED, 20), kept_blocks(MODEL_LAYER, 10) };

	(void)state;
	assert_int_equal(found(groups, 1, 2).first_model, 0);
	stacks[DISTILLED] = stacks[VGG];
	assert_int_equal(found(groups, 1, 2).first_model, 500 * MIB);
	groups[0] = kept_blocks(DISTILLED, 30);
	assert_int_equal(found(groups, 1, 2).first_model, 700 * MIB);
	/* Another model is not of the distillation. */
	assert_int_equal(found(groups, 2, 2).first_model, 0);
}

/* batch_norm() made 4 MiB, and then a block of this size. */
static int is_evaluated(bytes then, stack_tags its_tags)
{
	const struct tables t = { .stack_count = STACKS, .stacks = stacks, .stack_info = info };
	struct block_group group = {
		.stack = NORM, .category = CATEGORY_ACTIVATIONS, .blocks = 1, .bytes = 4 * MIB
	};
	const struct snapshot live = { .groups = &group, .count = 1 };
	struct metrics_pass p = { .tables = &t, .tags = tags, .grad_modes.stacks = made_nodes };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels };

	tags[NORM] = TAGGED(MODEL) | TAGGED(BATCH_NORM);
	metrics_note_mode(&d, 4 * MIB, TAGGED(BATCH_NORM));
	metrics_note_mode(&d, then, its_tags);
	metrics_note_mode(&d, MIB, TAGGED(MODEL));
	metrics_find_models(&p, &d, &live);
	return (int)m.evaluation_mode;
}

static void a_batch_norm_without_statistics_is_in_evaluation_mode(void **state)
{
	(void)state;
	assert_false(is_evaluated(512, 0));
	assert_true(is_evaluated(4 * MIB, TAGGED(MODEL)));
	/* The recorder has the stacks of small blocks too. */
	assert_false(is_evaluated(512, TAGGED(BATCH_NORM)));
}

/* The output is gone after the activation function; a graph has the input, of the layer before. */
static void a_graph_has_the_input_of_a_batch_norm(void **state)
{
	struct block_group groups[] = { kept(MODEL_LAYER, 4 * MIB), kept(LOSS_LAYER, 4 * MIB) };
	const struct tables t = { .stack_count = STACKS, .stacks = stacks, .stack_info = info };
	struct snapshot live = { .groups = groups, .count = 1 };
	struct metrics_pass p = { .tables = &t, .tags = tags, .grad_modes.stacks = made_nodes };
	struct metrics m = { 0 };
	struct device_pass d = { .m = &m, .stacks = levels, .latest_stack = MODEL_LAYER };

	(void)state;
	metrics_note_mode(&d, 4 * MIB, TAGGED(BATCH_NORM));
	metrics_note_mode(&d, 4 * MIB, TAGGED(MODEL));
	metrics_find_models(&p, &d, &live);
	assert_true(m.evaluation_mode);
	/* What is kept is of another model. */
	live.groups = groups + 1;
	metrics_find_models(&p, &d, &live);
	assert_false(m.evaluation_mode);
}

static void a_model_that_drops_nothing_is_in_evaluation_mode(void **state)
{
	struct block_group group = kept(NORM, 3 * MIB);

	(void)state;
	tags[NORM] = TAGGED(MODEL) | TAGGED(DROPS);
	tags[DROP] = TAGGED(MODEL) | TAGGED(DROPS) | TAGGED(DROPOUT);
	/* Another model, which keeps nothing, ran in evaluation mode. */
	levels[NORM].blocks = 3;
	assert_false(found(NULL, 0, 1).evaluation_mode);
	/* Its first layer may not have got to its dropout. */
	assert_false(found(&group, 1, 1).evaluation_mode);
	group.blocks = 3;
	assert_true(found(&group, 1, 1).evaluation_mode);
	tags[NORM] |= TAGGED(COMPILED);
	assert_false(found(&group, 1, 1).evaluation_mode);
	tags[NORM] &= ~TAGGED(COMPILED);
	levels[DROP].blocks = 1;
	assert_false(found(&group, 1, 1).evaluation_mode);
	levels[NORM].blocks = levels[DROP].blocks = 0;
}

static void buffers_of_one_size_are_told(void **state)
{
	struct block_group groups[] = { { .category = CATEGORY_BUFFERS,
					  .blocks = 10,
					  .bytes = 640 * MIB,
					  .smallest = 64 * MIB,
					  .largest = 64 * MIB },
					{ .category = CATEGORY_BUFFERS,
					  .blocks = 9,
					  .bytes = 900 * MIB,
					  .smallest = MIB,
					  .largest = 300 * MIB } };
	struct metrics m = found(groups, 2, 1);

	(void)state;
	assert_int_equal(m.buffers, 640 * MIB);
	assert_int_equal(m.buffer_blocks, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(models_have_lines_of_their_own),
		cmocka_unit_test(a_network_in_the_loss_is_beside_the_model),
		cmocka_unit_test(two_models_of_one_class_may_be_teacher_and_student),
		cmocka_unit_test(a_vgg_beside_the_model_is_a_losss),
		cmocka_unit_test(an_encoder_of_latents_is_not_trained),
		cmocka_unit_test(names_tell_a_teacher_and_a_rollout),
		cmocka_unit_test(the_larger_model_of_a_distillation_is_the_teacher),
		cmocka_unit_test(a_graph_has_the_input_of_a_batch_norm),
		cmocka_unit_test(buffers_of_one_size_are_told),
		cmocka_unit_test(a_batch_norm_without_statistics_is_in_evaluation_mode),
		cmocka_unit_test(a_model_that_drops_nothing_is_in_evaluation_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
