/* Attention by its softmax, in functions that all are called "forward". */
#include "fixture.h"

#include "metrics/metrics_attention.h"

#define MIB (INT64_C(1) << 20)

/* The frames, each with its function and file, and the stacks, the innermost frame first. */
enum {
	MODEL = 1,
	BLOCK, /* calls attention at one line, and the MLP at the next */
	BLOCK_MLP,
	PROJECT, /* attention calls its projection */
	SCORE,   /* attention calls softmax */
	HELP,    /* attention calls a function that does the rest without softmax */
	WITHIN,
	MLP,
	LAYER, /* torch.nn.Linear */
	TORCH, /* torch.nn.functional.softmax */
	FRAMES
};
enum { PROJECTION = 1, SOFTMAX, WIDE, RAW, HELPER, STACKS };

static struct mt_frame frames[FRAMES] = {
	[MODEL] = { .function = 1, .file = 1, .line = 70 },
	[BLOCK] = { .function = 1, .file = 1, .line = 55 },
	[BLOCK_MLP] = { .function = 1, .file = 1, .line = 56 },
	[PROJECT] = { .function = 1, .file = 1, .line = 34 },
	[SCORE] = { .function = 1, .file = 1, .line = 40 },
	[HELP] = { .function = 1, .file = 1, .line = 41 },
	[WITHIN] = { .function = 3, .file = 1, .line = 20 },
	[MLP] = { .function = 1, .file = 1, .line = 47 },
	[LAYER] = { .function = 1, .file = 2, .line = 1 },
	[TORCH] = { .function = 2, .file = 3, .line = 1 },
};
static unsigned char kinds[FRAMES] = { [LAYER] = FRAME_LIBRARY, [TORCH] = FRAME_LIBRARY };
static const uint32_t projection[] = { LAYER, PROJECT, BLOCK, MODEL },
		      softmax[] = { TORCH, SCORE, BLOCK, MODEL },
		      wide[] = { LAYER, MLP, BLOCK_MLP, MODEL }, raw[] = { SCORE, BLOCK, MODEL },
		      helper[] = { WITHIN, HELP, BLOCK, MODEL };
static struct stack stacks[STACKS] = {
	[PROJECTION] = { .frame_count = 4, .frames = projection },
	[SOFTMAX] = { .frame_count = 4, .frames = softmax },
	[WIDE] = { .frame_count = 4, .frames = wide },
	[RAW] = { .frame_count = 3, .frames = raw },
	[HELPER] = { .frame_count = 4, .frames = helper },
};

static struct str strings[] = { { 0 }, { "forward", 7 }, { "softmax", 7 }, { "attend", 6 } };

struct case_of {
	bytes projection, softmax, wide;
	uint64_t layers;
	int is_attention;
};

/* Do attention's stacks, and no other one, get the tag? Its scores before the softmax are in half
 * the precision. */
static void check(const struct case_of *c)
{
	struct block_group groups[] = {
		{ .stack = SOFTMAX, .blocks = c->layers, .largest = c->softmax },
		{ .stack = PROJECTION, .blocks = 3, .largest = c->projection },
		{ .stack = WIDE, .blocks = 2, .largest = c->wide },
	};
	struct tables tables = { .stack_count = STACKS,
				 .stacks = stacks,
				 .frames = frames,
				 .frame_kinds = kinds,
				 .frame_count = FRAMES,
				 .strings = strings,
				 .string_count = ARRAY_SIZE(strings) };
	stack_tags tags[STACKS] = { [PROJECTION] = TAGGED(LINEAR) | TAGGED(MODEL),
				    [SOFTMAX] = TAGGED(PROBABILITIES) | TAGGED(MODEL),
				    [WIDE] = TAGGED(LINEAR) | TAGGED(MODEL),
				    [RAW] = TAGGED(MODEL) };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct failure request = { .stack = RAW, .requested = c->softmax / 2 };
	struct snapshot live = { .groups = groups, .count = c->projection ? 3 : 1 };

	metrics_tag_attention(&p, &request, &live);
	for (uint32_t i = 1; i < STACKS; i++)
		assert_int_equal(!!(tags[i] & TAGGED(ATTENTION)),
				 c->is_attention && i != WIDE && i != HELPER);
}

static void an_attention_is_told_by_its_softmax(void **state)
{
	(void)state;
	/* The MLP is wider than attention's scores: it is another call. */
	check(&(struct case_of){ 10 * MIB, 100 * MIB, 200 * MIB, 2, 1 });
	check(&(struct case_of){ 10 * MIB, 21 * MIB, MIB, 12, 1 });
}

static void other_softmaxes_are_no_attention(void **state)
{
	(void)state;
	/* One: classes of a segmentation, similarities of a batch. */
	check(&(struct case_of){ 10 * MIB, 100 * MIB, MIB, 1, 0 });
	/* Of a linear layer's own output: a router, or a head that returns probabilities. */
	check(&(struct case_of){ 100 * MIB, 100 * MIB, MIB, 12, 0 });
	check(&(struct case_of){ 100 * MIB, 200 * MIB, MIB, 12, 0 });
	/* No linear layer in that function. */
	check(&(struct case_of){ 0, 100 * MIB, 0, 12, 0 });
}

/* The function's name speaks of attention, and its linear layers are those of its caller. */
static void a_function_may_make_the_scores_for_its_caller(void **state)
{
	struct stack_info infos[STACKS] = { [HELPER] = { .flags = STACK_FRAMES } };
	struct block_group groups[] = {
		{ .stack = HELPER, .blocks = 2, .largest = 100 * MIB },
		{ .stack = PROJECTION, .blocks = 3, .largest = 10 * MIB },
	};
	struct tables tables = { .stack_count = STACKS,
				 .stacks = stacks,
				 .frames = frames,
				 .frame_kinds = kinds,
				 .frame_count = FRAMES,
				 .strings = strings,
				 .string_count = ARRAY_SIZE(strings),
				 .stack_info = infos };
	stack_tags tags[STACKS] = { [PROJECTION] = TAGGED(LINEAR) | TAGGED(MODEL),
				    [HELPER] = TAGGED(ATTENDS) | TAGGED(MODEL) };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct snapshot live = { .groups = groups, .count = 2 };

	(void)state;
	metrics_tag_attention(&p, NULL, &live);
	assert_true(tags[HELPER] & TAGGED(ATTENTION));
	assert_true(tags[PROJECTION] & TAGGED(ATTENTION));
	/* PyTorch's own attention has no scores; it may copy a mask. */
	strings[3] = (struct str){ "sdpa_attention_forward", 22 };
	metrics_tag_attention(&p, NULL, &live);
	assert_false(tags[HELPER] & (TAGGED(ATTENTION) | TAGGED(ATTENDS)));
	/* Without a fused kernel it has: several layers' are most of all. */
	groups[0].blocks = groups[0].alike = 4;
	groups[0].bytes = 400 * MIB;
	live.bytes = 700 * MIB;
	tags[HELPER] = TAGGED(ATTENDS) | TAGGED(ATTENTION) | TAGGED(MODEL);
	metrics_tag_attention(&p, NULL, &live);
	assert_true(tags[HELPER] & TAGGED(ATTENTION));
	live.bytes = 1300 * MIB;
	metrics_tag_attention(&p, NULL, &live);
	assert_false(tags[HELPER] & TAGGED(ATTENTION));
	strings[3] = (struct str){ "attend", 6 };
	/* It need not be of a module. */
	tags[HELPER] = TAGGED(ATTENDS);
	tags[PROJECTION] = TAGGED(LINEAR);
	metrics_tag_attention(&p, NULL, &live);
	assert_true(tags[HELPER] & TAGGED(ATTENTION));
	/* As large as what the linear layer makes: no scores. */
	tags[HELPER] = TAGGED(ATTENDS) | TAGGED(MODEL);
	groups[0].largest = 20 * MIB;
	metrics_tag_attention(&p, NULL, &live);
	assert_false(tags[HELPER] & TAGGED(ATTENTION));
}

/* A norm of an attention, and an adapter around its projection, compute in a wider type: what they
 * make is larger than the projection's output, and no score. */
static void layers_within_an_attention_make_no_scores(void **state)
{
	static const struct {
		struct str function, file;
		int is_linear, is_attention;
	} cases[] = {
		{ { "attend", 6 }, { "/job/net.py", 11 }, 0, 1 },
		{ { "RMSNorm.forward", 15 }, { "/job/net.py", 11 }, 0, 0 },
		{ { "_cast", 5 }, { "/p/peft/tuners/tuners_utils.py", 30 }, 1, 1 },
	};
	struct mt_frame *within = &frames[WITHIN];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str names[] = { { 0 }, { 0 }, cases[i].function, cases[i].file };
		struct tables tables = { .stack_count = STACKS,
					 .stacks = stacks,
					 .frames = frames,
					 .frame_kinds = kinds,
					 .frame_count = FRAMES,
					 .strings = names,
					 .string_count = ARRAY_SIZE(names) };
		stack_tags tags[STACKS] = { [HELPER] = TAGGED(ATTENTION) | TAGGED(MODEL) };
		struct metrics_pass p = { .tables = &tables, .tags = tags };
		struct mt_frame before = *within;
		struct snapshot live = { 0 };

		*within = (struct mt_frame){ .function = 2, .file = 3, .line = 20 };
		metrics_tag_attention(&p, NULL, &live);
		*within = before;
		assert_int_equal(!!(tags[HELPER] & TAGGED(LINEAR)), cases[i].is_linear);
		assert_int_equal(!!(tags[HELPER] & TAGGED(ATTENTION)), cases[i].is_attention);
	}
}

/* AttentionUNet: its convolutions, and what it does to their results, are no scores. Within another
 * module of that name, the same block may be one; and an attention may have one convolution. */
static void a_network_with_a_name_of_attention_has_no_scores(void **state)
{
	enum { CONVOLUTIONS = 4, PLAIN, INNER, ALL };
	static const uint32_t conv[] = { 2, 1 }, own[] = { 1 }, inner[] = { 3, 1 };
	static struct stack of[ALL] = { [PLAIN] = { .frame_count = 1, .frames = own },
					[INNER] = { .frame_count = 2, .frames = inner } };
	static struct mt_frame lines[] = { { 0 },
					   { .function = 1, .file = 4 },
					   { .function = 2, .file = 5 },
					   { .function = 3, .file = 4 } };
	static unsigned char of_lines[] = { 0, FRAME_FORWARD, FRAME_FORWARD | FRAME_LIBRARY,
					    FRAME_FORWARD };
	static struct str names[] = { { 0 },
				      { "AttentionUNet.forward", 21 },
				      { "Conv2d.forward", 14 },
				      { "SelfAttention.forward", 21 },
				      { "net.py", 6 },
				      { "conv.py", 7 } };
	const stack_tags attention = TAGGED(ATTENTION) | TAGGED(MODEL);
	stack_tags tags[ALL] = { 0 };
	struct tables tables = { .stack_count = ALL,
				 .stacks = of,
				 .frames = lines,
				 .frame_kinds = of_lines,
				 .frame_count = ARRAY_SIZE(lines),
				 .strings = names,
				 .string_count = ARRAY_SIZE(names) };
	struct metrics_pass p = { .tables = &tables, .tags = tags };
	struct snapshot live = { 0 };

	(void)state;
	for (uint32_t convolutions = 1; convolutions <= CONVOLUTIONS; convolutions++) {
		for (uint32_t i = 1; i < ALL; i++)
			tags[i] = attention;
		for (uint32_t i = 1; i <= CONVOLUTIONS; i++) {
			of[i] = (struct stack){ .frame_count = 2, .frames = conv };
			tags[i] = i <= convolutions ? attention | TAGGED(LAYER) : 0;
		}
		metrics_tag_attention(&p, NULL, &live);
		assert_false(tags[1] & TAGGED(ATTENTION));
		assert_int_equal(!!(tags[PLAIN] & TAGGED(ATTENTION)), convolutions < 4);
		assert_true(tags[INNER] & TAGGED(ATTENTION));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_attention_is_told_by_its_softmax),
		cmocka_unit_test(other_softmaxes_are_no_attention),
		cmocka_unit_test(a_function_may_make_the_scores_for_its_caller),
		cmocka_unit_test(layers_within_an_attention_make_no_scores),
		cmocka_unit_test(a_network_with_a_name_of_attention_has_no_scores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
