/* What a sequence of parameters' sizes says about a model: sizes by hand, in the order in which
 * frameworks make them. */
#include "infer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void make(struct census *c, enum maker m, bytes size)
{
	struct made *to = &c->made[m];

	to->sizes = grow(to->sizes, to->count, &to->room, sizeof(*to->sizes));
	to->sizes[to->count++] = (size + 511) / 512 * 512;
}

static size_t read_layers(struct layers *l, const struct census *c, int64_t shards, int64_t world,
			  enum maker maker, struct reading_of_layer *r)
{
	const struct reading_of_job job = { .shards = shards, .world = world };

	layers_find(l, c, maker);
	return l->count ? layers_read(l, c, &job, r) : 0;
}

static const struct reading_of_layer *find(const struct reading_of_layer *r, size_t n,
					   int64_t hidden, int width, int64_t tp)
{
	for (size_t i = 0; i < n; i++)
		if (r[i].hidden == hidden && r[i].width == width && r[i].tp == tp)
			return &r[i];
	return NULL;
}

/* GPT-2 small without biases, fp32: h 768, 3h, h, 4h, 4h, two norms; positions of 1024 */
static void gpt2(void **state)
{
	struct census c = { 0 };
	struct layers l;
	struct reading_of_layer r[MOST_READINGS];
	const struct reading_of_layer *found;
	size_t n;

	(void)state;
	make(&c, MAKER_INIT, INT64_C(50304) * 768 * 4);
	make(&c, MAKER_INIT, 1024 * 768 * 4);
	for (int i = 0; i < 12; i++) {
		make(&c, MAKER_INIT, 768 * 4);
		make(&c, MAKER_INIT, 3 * 768 * 768 * 4);
		make(&c, MAKER_INIT, 768 * 768 * 4);
		make(&c, MAKER_INIT, 768 * 4);
		make(&c, MAKER_INIT, 4 * 768 * 768 * 4);
		make(&c, MAKER_INIT, 4 * 768 * 768 * 4);
	}
	n = read_layers(&l, &c, 1, 1, MAKER_INIT, r);
	assert_int_equal(l.count, 12);
	assert_int_equal(l.period, 6);
	found = find(r, n, 768, 4, 1);
	assert_non_null(found);
	assert_int_equal(found->kv, 768);
	assert_int_equal(found->ffn, 3072);
	assert_false(found->gated);
	assert_false(found->linear_bias);
	assert_int_equal(found->vectors, 2);
	assert_true(found->vocab_least <= 50304 && found->vocab_most >= 50304);
	assert_true(found->positions_least <= 1024 && found->positions_most == 1024);
	census_release(&c);
}

/* Llama: h 1024, 4 of 16 key heads, ffn 2816, bf16; tails on some of the blocks */
static void llama_with_groups_and_tails(void **state)
{
	struct census c = { 0 };
	struct layers l;
	struct reading_of_layer r[MOST_READINGS];
	const struct reading_of_layer *found;
	size_t n;

	(void)state;
	make(&c, MAKER_APPLY, INT64_C(32000) * 1024 * 2);
	for (int i = 0; i < 8; i++) {
		make(&c, MAKER_APPLY, 1024 * 1024 * 2 + (i % 3 == 1) * 1048576);
		make(&c, MAKER_APPLY, 256 * 1024 * 2);
		make(&c, MAKER_APPLY, 256 * 1024 * 2);
		make(&c, MAKER_APPLY, 1024 * 1024 * 2);
		for (int k = 0; k < 3; k++)
			make(&c, MAKER_APPLY, 2816 * 1024 * 2 + (i % 4 == k) * 524288);
		make(&c, MAKER_APPLY, 1024 * 2);
		make(&c, MAKER_APPLY, 1024 * 2);
	}
	make(&c, MAKER_APPLY, 1024 * 2);
	make(&c, MAKER_APPLY, INT64_C(32000) * 1024 * 2);
	n = read_layers(&l, &c, 1, 1, MAKER_APPLY, r);
	assert_int_equal(l.count, 8);
	assert_int_equal(l.period, 9);
	found = find(r, n, 1024, 2, 1);
	assert_non_null(found);
	assert_int_equal(found->kv, 256);
	assert_true(found->gated);
	assert_true(found->ffn_least <= 2816 && found->ffn == 2816);
	assert_int_equal(found->heads_seen, 2);
	assert_int_equal(found->vocab_most, 32000);
	census_release(&c);
}

/* Megatron, t 2, gated, bf16: the norms are made elsewhere, as vectors of the whole width */
static void megatron_tensor_parallel(void **state)
{
	struct census c = { 0 };
	struct size_count norms[] = { { 2048, 9 } };
	struct layers l;
	struct reading_of_layer r[MOST_READINGS];
	const struct reading_of_layer *found;
	size_t n;

	(void)state;
	c.small = norms;
	c.small_count = 1;
	make(&c, MAKER_INIT, INT64_C(16000) * 1024 * 2);
	for (int i = 0; i < 4; i++) {
		make(&c, MAKER_INIT, 1024 * 512 * 2);             /* output, h/t columns */
		make(&c, MAKER_INIT, (512 + 2 * 128) * 1024 * 2); /* q, k, v */
		make(&c, MAKER_INIT, 2 * 1408 * 1024 * 2);
		make(&c, MAKER_INIT, 1408 * 1024 * 2);
	}
	n = read_layers(&l, &c, 1, 2, MAKER_INIT, r);
	assert_int_equal(l.count, 4);
	found = find(r, n, 1024, 2, 2);
	assert_non_null(found);
	assert_int_equal(found->kv, 256);
	assert_true(found->gated);
	assert_true(found->ffn_least <= 2816 && found->ffn >= 2816);
	assert_true(found->vocab_least <= 32000 && found->vocab_most >= 32000);
	c.small = NULL;
	c.small_count = 0;
	census_release(&c);
}

/* FSDP2 on two ranks: every block is half of the parameter */
static void sharded(void **state)
{
	struct census c = { 0 };
	struct layers l;
	struct reading_of_layer r[MOST_READINGS];
	const struct reading_of_layer *found;
	size_t n;

	(void)state;
	for (int i = 0; i < 5; i++) {
		make(&c, MAKER_SHARDED, 3 * 512 * 512 * 4 / 2);
		make(&c, MAKER_SHARDED, 512 * 512 * 4 / 2);
		make(&c, MAKER_SHARDED, 4 * 512 * 512 * 4 / 2);
		make(&c, MAKER_SHARDED, 4 * 512 * 512 * 4 / 2);
		make(&c, MAKER_SHARDED, 512 * 4 / 2);
		make(&c, MAKER_SHARDED, 512 * 4 / 2);
	}
	n = read_layers(&l, &c, 2, 1, MAKER_SHARDED, r);
	found = find(r, n, 512, 4, 1);
	assert_non_null(found);
	assert_true(found->ffn_least <= 2048 && found->ffn >= 2048);
	census_release(&c);
}

static void no_layers(void **state)
{
	static const bytes sizes[] = { 0, 1, 512, INT64_C(1) << 50 };
	struct reading_of_layer r[MOST_READINGS];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct census c = { 0 };
		struct layers l;

		layers_find(&l, &c, MAKER_INIT);
		assert_int_equal(l.count, 0);
		/* blocks of one size are no layers, however many */
		for (int k = 0; k < 100; k++)
			make(&c, MAKER_INIT, sizes[i]);
		layers_find(&l, &c, MAKER_INIT);
		assert_int_equal(l.count, 0);
		census_release(&c);
	}
	/* what repeats need not be a layer of anything */
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct census c = { 0 };
		struct layers l;

		for (int k = 0; k < 300; k++)
			make(&c, MAKER_INIT, sizes[i] + (bytes)(k % 7) * (INT64_C(3) << 30));
		for (int64_t world = 1; world < 1 << 30; world *= 1000)
			assert_int_equal(read_layers(&l, &c, INT64_MAX >> 20, world, MAKER_INIT, r),
					 0);
		census_release(&c);
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
		cmocka_unit_test(no_layers),
		cmocka_unit_test(sizes_fit_with_a_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
