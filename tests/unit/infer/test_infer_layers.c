/* What a sequence of parameters' sizes says about a model: sizes by hand, in the order in which
 * frameworks make them. */
#include "attribution/frames.h"
#include "infer/infer.h"
#include "infer/infer_layers.h"
#include "infer/infer_tokens.h"
#include "infer/infer_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void make(struct alloc_profile *c, enum parameter_source m, bytes size)
{
	struct parameter_sizes *to = &c->parameters[m];

	to->sizes = grow(to->sizes, to->count, &to->room, sizeof(*to->sizes));
	to->sizes[to->count++] = (size + 511) / 512 * 512;
}

/* Several, in this order. */
#define MAKE(c, m, ...)                                           \
	do {                                                      \
		const bytes made_[] = { __VA_ARGS__ };            \
		for (size_t k_ = 0; k_ < ARRAY_SIZE(made_); k_++) \
			make(c, m, made_[k_]);                    \
	} while (0)

/* What the blocks of a source can mean. */
struct read {
	struct layers l;
	struct layer_hypothesis r[MAX_HYPOTHESES];
	size_t n;
};

static void read_layers(struct read *x, const struct alloc_profile *c, enum parameter_source source,
			struct job_assumptions job)
{
	layers_find(&x->l, c, source);
	x->n = x->l.count ? layers_interpret(&x->l, c, &job, x->r) : 0;
}

/* The reading with these sizes, which there must be. */
static const struct layer_hypothesis *find(const struct read *x, int64_t hidden, int width,
					   int64_t tp)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->r[i].hidden == hidden && x->r[i].width == width && x->r[i].tp == tp)
			return &x->r[i];
	fail_msg("no reading with hidden_size %lld", (long long)hidden);
	return NULL;
}

static const struct job_assumptions alone = { .shards = 1, .world = 1 };

/* GPT-2 small without biases, fp32: h 768, 3h, h, 4h, 4h, two norms; positions of 1024 */
static void gpt2(void **state)
{
	struct alloc_profile c = { 0 };
	struct read x;
	const struct layer_hypothesis *found;

	(void)state;
	make(&c, SOURCE_INIT, INT64_C(50304) * 768 * 4);
	make(&c, SOURCE_INIT, 1024 * 768 * 4);
	for (int i = 0; i < 12; i++)
		MAKE(&c, SOURCE_INIT, 768 * 4, 3 * 768 * 768 * 4, 768 * 768 * 4, 768 * 4,
		     4 * 768 * 768 * 4, 4 * 768 * 768 * 4);
	read_layers(&x, &c, SOURCE_INIT, alone);
	assert_int_equal(x.l.count, 12);
	assert_int_equal(x.l.period, 6);
	found = find(&x, 768, 4, 1);
	assert_int_equal(found->kv, 768);
	assert_int_equal(found->ffn, 3072);
	assert_false(found->gated);
	assert_false(found->linear_bias);
	assert_int_equal(found->vectors, 2);
	assert_true(found->vocab_least <= 50304 && found->vocab_most >= 50304);
	assert_true(found->positions_least <= 1024 && found->positions_most == 1024);
	alloc_profile_release(&c);
}

/* Llama: h 1024, 4 of 16 key heads, ffn 2816, bf16; tails on some of the blocks */
static void llama_with_groups_and_tails(void **state)
{
	struct alloc_profile c = { 0 };
	struct read x;
	const struct layer_hypothesis *found;

	(void)state;
	make(&c, SOURCE_APPLY, INT64_C(32000) * 1024 * 2);
	for (int i = 0; i < 8; i++) {
		MAKE(&c, SOURCE_APPLY, 1024 * 1024 * 2 + (i % 3 == 1) * 1048576, 256 * 1024 * 2,
		     256 * 1024 * 2, 1024 * 1024 * 2);
		for (int k = 0; k < 3; k++)
			make(&c, SOURCE_APPLY, 2816 * 1024 * 2 + (i % 4 == k) * 524288);
		MAKE(&c, SOURCE_APPLY, 1024 * 2, 1024 * 2);
	}
	make(&c, SOURCE_APPLY, 1024 * 2);
	make(&c, SOURCE_APPLY, INT64_C(32000) * 1024 * 2);
	read_layers(&x, &c, SOURCE_APPLY, alone);
	assert_int_equal(x.l.count, 8);
	assert_int_equal(x.l.period, 9);
	found = find(&x, 1024, 2, 1);
	assert_int_equal(found->kv, 256);
	assert_true(found->gated);
	assert_true(found->ffn_least <= 2816 && found->ffn == 2816);
	assert_int_equal(found->heads_seen, 2);
	assert_int_equal(found->vocab_most, 32000);
	alloc_profile_release(&c);
}

/* Megatron, t 2, gated, bf16: the norms are made elsewhere, as vectors of the whole width */
static void megatron_tensor_parallel(void **state)
{
	struct alloc_profile c = { 0 };
	struct size_count norms[] = { { 2048, 9 } };
	struct read x;
	const struct layer_hypothesis *found;

	(void)state;
	c.small.list = norms;
	c.small.count = 1;
	make(&c, SOURCE_INIT, INT64_C(16000) * 1024 * 2);
	for (int i = 0; i < 4; i++) {
		make(&c, SOURCE_INIT, 1024 * 512 * 2);             /* output, h/t columns */
		make(&c, SOURCE_INIT, (512 + 2 * 128) * 1024 * 2); /* q, k, v */
		make(&c, SOURCE_INIT, 2 * 1408 * 1024 * 2);
		make(&c, SOURCE_INIT, 1408 * 1024 * 2);
	}
	read_layers(&x, &c, SOURCE_INIT, (struct job_assumptions){ .shards = 1, .world = 2 });
	assert_int_equal(x.l.count, 4);
	found = find(&x, 1024, 2, 2);
	assert_int_equal(found->kv, 256);
	assert_true(found->gated);
	assert_true(found->ffn_least <= 2816 && found->ffn >= 2816);
	assert_true(found->vocab_least <= 32000 && found->vocab_most >= 32000);
	c.small.list = NULL;
	c.small.count = 0;
	alloc_profile_release(&c);
}

/* FSDP2 on two ranks: every block is half of the parameter */
static void sharded(void **state)
{
	struct alloc_profile c = { 0 };
	struct read x;
	const struct layer_hypothesis *found;

	(void)state;
	for (int i = 0; i < 5; i++)
		MAKE(&c, SOURCE_SHARDED, 3 * 512 * 512 * 4 / 2, 512 * 512 * 4 / 2,
		     4 * 512 * 512 * 4 / 2, 4 * 512 * 512 * 4 / 2, 512 * 4 / 2, 512 * 4 / 2);
	read_layers(&x, &c, SOURCE_SHARDED, (struct job_assumptions){ .shards = 2, .world = 1 });
	found = find(&x, 512, 4, 1);
	assert_true(found->ffn_least <= 2048 && found->ffn >= 2048);
	alloc_profile_release(&c);
}

/* Mixtral: h 512, 2 of 8 key heads, 8 experts of 1792 in two tensors, after a router of 8 rows;
 * bf16 */
static void experts_in_two_tensors(void **state)
{
	struct alloc_profile c = { 0 };
	struct read x;
	const struct layer_hypothesis *found;

	(void)state;
	for (int i = 0; i < 3; i++)
		MAKE(&c, SOURCE_APPLY, 512 * 512 * 2, 128 * 512 * 2, 128 * 512 * 2, 512 * 512 * 2,
		     8 * 512 * 2, 8 * 2 * 1792 * 512 * 2, 8 * 1792 * 512 * 2, 512 * 2, 512 * 2);
	read_layers(&x, &c, SOURCE_APPLY,
		    (struct job_assumptions){ .shards = 1, .world = 1, .experts = 1 });
	found = find(&x, 512, 2, 1);
	assert_int_equal(found->kv, 128);
	assert_int_equal(found->experts, 8);
	assert_int_equal(found->experts_here, 8);
	assert_int_equal(found->ffn, 1792);
	assert_int_equal(found->shared, 0);
	/* without the code of experts it is a gated network of 8 times the width */
	read_layers(&x, &c, SOURCE_APPLY, alone);
	assert_int_equal(find(&x, 512, 2, 1)->experts, 0);
	assert_int_equal(find(&x, 512, 2, 1)->ffn, 8 * 1792);
	alloc_profile_release(&c);
}

/* Megatron, two ranks share 8 experts of 704 and each has a shared one of 1408: two matrices for
 * each; norms and router come from the host, the router in fp32, then converted */
static void experts_of_two_ranks(void **state)
{
	struct alloc_profile c = { 0 };
	struct size_count small[] = { { 1024, 15 }, { 2048, 15 }, { 8192, 5 }, { 16384, 5 } };
	struct read x;
	int found = 0;

	(void)state;
	c.small.list = small;
	c.small.count = ARRAY_SIZE(small);
	for (int i = 0; i < 5; i++) {
		make(&c, SOURCE_INIT, 512 * 512 * 2);
		make(&c, SOURCE_INIT, 3 * 512 * 512 * 2);
		for (int k = 0; k < 4; k++) {
			make(&c, SOURCE_INIT, 2 * 704 * 512 * 2);
			make(&c, SOURCE_INIT, 704 * 512 * 2);
		}
		make(&c, SOURCE_INIT, 2 * 1408 * 512 * 2);
		make(&c, SOURCE_INIT, 1408 * 512 * 2);
	}
	read_layers(&x, &c, SOURCE_INIT,
		    (struct job_assumptions){ .shards = 2, .world = 2, .experts = 1 });
	for (size_t i = 0; i < x.n; i++)
		if (x.r[i].hidden == 512 && x.r[i].width == 2 && x.r[i].experts == 8) {
			found = 1;
			assert_int_equal(x.r[i].experts_here, 4);
			assert_int_equal(x.r[i].ffn, 704);
			assert_int_equal(x.r[i].shared, 1408);
		}
	assert_true(found);
	c.small.list = NULL;
	c.small.count = 0;
	alloc_profile_release(&c);
}

static uint64_t mark_of(const char *key, const char *value)
{
	for (size_t m = 0; m < signature_count; m++)
		if (!strcmp(signatures[m].key, key) && !strcmp(signatures[m].value, value))
			return UINT64_C(1) << m;
	fail_msg("no mark %s", key);
	return 0;
}

/* How surely a router's rows tell the experts: of blocks of their own any small block may pass for
 * it, and without one any number of ranks may share them. */
static void experts_are_as_sure_as_their_router(void **state)
{
	static const struct {
		int apart, no_router;
		enum inferred_confidence confidence;
	} rows[] = { { 0, 0, INFERRED_EXACT },
		     { 1, 0, INFERRED_LIKELY },
		     { 1, 1, INFERRED_GUESS } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct alloc_profile profile = { 0 };
		struct rank rank = { .rank = 0, .world_size = 2 };
		struct observed_rank w = { &rank, &profile };
		struct infer_input j = { .w = &w,
					 .count = 1,
					 .signatures = mark_of("framework", "megatron-core"),
					 .world = 2,
					 .profile = &profile };
		struct candidate t = { .layers = { .count = 4 },
				       .r = { .hidden = 512,
					      .ffn = 704,
					      .ffn_least = 704,
					      .kv = 512,
					      .tp = 1,
					      .width = 2,
					      .experts = 8,
					      .experts_here = 4,
					      .apart = rows[i].apart,
					      .no_router = rows[i].no_router },
				       .tokens = 1024,
				       .seq = 512,
				       .heads = 8,
				       .topk = 2 };
		struct inferred_config found = { 0 };
		const struct inferred *experts, *ranks;
		struct config c;

		config_init(&c);
		infer_values(&found, &c, &j, &t);
		experts = inferred_find(&found, CONFIG_num_experts);
		ranks = inferred_find(&found, CONFIG_expert_model_parallel_size);
		assert_non_null(experts);
		assert_non_null(ranks);
		assert_string_equal(experts->value, "8");
		assert_string_equal(ranks->value, "2");
		assert_int_equal(experts->confidence, rows[i].confidence);
		assert_int_equal(ranks->confidence, rows[i].confidence);
		assert_int_equal(strstr(experts->evidence, "may share") != NULL, rows[i].no_router);
		config_release(&c);
		inferred_release(&found);
	}
}

/* A trace may have tens of thousands of sizes: the most frequent tell the tokens, at once. */
static void tokens_of_many_sizes(void **state)
{
	enum { SIZES = 65536, TOKENS = 4096 };
	struct layer_hypothesis r = {
		.hidden = 64, .kv = 64, .ffn = 256, .ffn_least = 256, .tp = 1, .width = 2
	};
	struct token_count best[MAX_TOKEN_COUNTS];
	struct alloc_profile c = { .forward = { .list = calloc(SIZES, sizeof(*c.forward.list)),
						.count = SIZES } };

	(void)state;
	assert_non_null(c.forward.list);
	for (bytes i = 0; i < SIZES; i++)
		c.forward.list[i] =
			(struct size_count){ (i + 1) * 64 * 2, i + 1 == TOKENS ? 1000 : 32 };
	assert_true(tokens_find(&c, &r, best) >= 1);
	assert_int_equal(best[0].tokens, TOKENS);
	free(c.forward.list);
}

static void no_layers(void **state)
{
	static const bytes sizes[] = { 0, 1, 512, INT64_C(1) << 50 };
	struct read x;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct alloc_profile c = { 0 };

		layers_find(&x.l, &c, SOURCE_INIT);
		assert_int_equal(x.l.count, 0);
		/* blocks of one size are no layers, however many */
		for (int k = 0; k < 100; k++)
			make(&c, SOURCE_INIT, sizes[i]);
		layers_find(&x.l, &c, SOURCE_INIT);
		assert_int_equal(x.l.count, 0);
		alloc_profile_release(&c);
	}
	/* what repeats need not be a layer of anything */
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct alloc_profile c = { 0 };

		for (int k = 0; k < 300; k++)
			make(&c, SOURCE_INIT, sizes[i] + (bytes)(k % 7) * (INT64_C(3) << 30));
		for (int64_t world = 1; world < 1 << 30; world *= 1000) {
			read_layers(&x, &c, SOURCE_INIT,
				    (struct job_assumptions){ INT64_MAX >> 20, world, world & 8 });
			assert_int_equal(x.n, 0);
		}
		alloc_profile_release(&c);
	}
}

static void sizes_fit_with_a_tail(void **state)
{
	(void)state;
	assert_true(size_fits(512, 1));
	assert_true(size_fits(1024, 1024));
	assert_false(size_fits(1536, 1024));
	assert_true(size_fits(3 << 20, 2 << 20));
	assert_false(size_fits((3 << 20) + 512, 2 << 20));
	assert_false(size_fits(2 << 20, (2 << 20) + 512));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt2),
		cmocka_unit_test(llama_with_groups_and_tails),
		cmocka_unit_test(megatron_tensor_parallel),
		cmocka_unit_test(sharded),
		cmocka_unit_test(experts_in_two_tensors),
		cmocka_unit_test(experts_of_two_ranks),
		cmocka_unit_test(experts_are_as_sure_as_their_router),
		cmocka_unit_test(tokens_of_many_sizes),
		cmocka_unit_test(no_layers),
		cmocka_unit_test(sizes_fit_with_a_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
