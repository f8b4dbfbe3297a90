/* Lists of the sizes of parameters: of one model, and of two. */
#include "fixture.h"

#include "duplicates/sizes_twice.h"

#define MIB (INT64_C(1) << 20)
#define LEAST 4

static bytes twice(const bytes *mib, size_t count)
{
	bytes sizes[64];

	assert_true(count <= ARRAY_SIZE(sizes));
	for (size_t i = 0; i < count; i++)
		sizes[i] = mib[i] * MIB;
	return sizes_twice(sizes, count, LEAST) / MIB;
}

#define TWICE(...) \
	twice((const bytes[]){ __VA_ARGS__ }, ARRAY_SIZE(((const bytes[]){ __VA_ARGS__ })))

/* Layers repeat themselves, and an embedding and a head of one size are at the two ends. */
static void one_model_is_not_two(void **state)
{
	(void)state;
	assert_int_equal(TWICE(5, 5, 5, 5, 5, 5, 5, 5), 0);
	assert_int_equal(TWICE(90, 10, 20, 10, 20, 10, 20, 10, 20, 90), 0);
	assert_int_equal(TWICE(90, 10, 20), 0);
	/* Four equal layers, whose embedding and head are too small to count. */
	assert_int_equal(TWICE(30, 10, 20, 30, 10, 20, 30, 10, 20, 30, 10, 20), 0);
}

/* In its own order; in another one; with an adapter behind both. */
static void a_copy_of_a_model_is_found(void **state)
{
	(void)state;
	assert_int_equal(TWICE(90, 10, 20, 10, 20, 90, 10, 20, 10, 20), 150);
	assert_int_equal(TWICE(90, 10, 20, 10, 20, 90, 20, 20, 10, 10), 150);
	assert_int_equal(TWICE(90, 10, 20, 10, 20, 90, 10, 20, 10, 20, 30), 150);
}

/* A block may be up to 1 MiB larger than its tensor. */
static void blocks_of_equal_tensors_differ_a_little(void **state)
{
	(void)state;
	assert_int_equal(TWICE(90, 10, 20, 11, 20, 90, 10, 21, 10, 20), 151);
	assert_int_equal(TWICE(90, 10, 20, 13, 20, 90, 10, 20, 10, 20), 0);
}

/* Blocks of up to 1 MiB are as large as their tensors: a head of a quarter of a MiB is none of the
 * layers of 1 MiB, and there twice. */
static void small_blocks_do_not_differ(void **state)
{
	const bytes quarters[] = { 6, 12, 4, 16, 12, 4, 16, 1, 8, 12, 4, 16, 12, 4, 16, 1 };
	bytes sizes[ARRAY_SIZE(quarters)], sum = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(quarters); i++) {
		sizes[i] = quarters[i] * MIB / 4;
		sum += i < ARRAY_SIZE(quarters) / 2 ? sizes[i] : 0;
	}
	assert_int_equal(sizes_twice(sizes, ARRAY_SIZE(sizes), LEAST), sum);
	sizes[ARRAY_SIZE(sizes) - 1] = MIB / 2;
	assert_int_equal(sizes_twice(sizes, ARRAY_SIZE(sizes), LEAST), 0);
}

/* An embedding, two layers and a head of the embedding's size; three such models, and one alone. */
static void equal_models_are_counted(void **state)
{
	bytes sizes[] = { 90, 10, 20, 10, 20, 90, 90, 10, 20, 10, 20, 90, 90, 10, 20, 10, 20, 90 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		sizes[i] *= MIB;
	assert_int_equal(sizes_of_equal_models(sizes, 18, LEAST), 6);
	assert_int_equal(sizes_of_equal_models(sizes, 12, LEAST), 6);
	assert_int_equal(sizes_of_equal_models(sizes, 6, LEAST), 0);
	assert_int_equal(sizes_of_equal_models(sizes, 18, 7), 0);
	sizes[13] += 5 * MIB;
	assert_int_equal(sizes_of_equal_models(sizes, 18, LEAST), 0);
}

/* Attention's own weight comes before its projection in parameters(), and behind it in to(). */
static void a_list_begins_again_in_nearly_its_order(void **state)
{
	bytes sizes[] = { 90, 10, 30, 20, 10, 30, 20, 5, 90, 30, 10, 20, 30, 10 };

	(void)state;
	assert_int_equal(sizes_begin_again(sizes, ARRAY_SIZE(sizes), LEAST), 8);
	/* One size of it is no parameter's. */
	sizes[12] = 40;
	assert_int_equal(sizes_begin_again(sizes, ARRAY_SIZE(sizes), LEAST), 0);
	/* Layers that are alike. */
	sizes[12] = 30;
	sizes[0] = sizes[8] = 10;
	sizes[7] = 20;
	assert_int_equal(sizes_begin_again(sizes, ARRAY_SIZE(sizes), LEAST), 0);
}

/* A model of an embedding, 80, and layers of six weights that are alike, of which the last one is
 * being made: a size of a layer stands before the embedding, too. A second model would have an
 * embedding. */
static void layers_that_are_being_made_are_no_second_model(void **state)
{
	bytes sizes[] = { 4,  80, 5, 4, 4, 4,  4,  16, 16, 4, 4, 4,  4, 16,
			  16, 4,  4, 4, 4, 16, 16, 4,  4,  4, 4, 16, 16 };

	(void)state;
	assert_int_equal(sizes_begin_again(sizes, ARRAY_SIZE(sizes), LEAST), 0);
	sizes[16] = 80;
	sizes[17] = 5;
	assert_int_equal(sizes_begin_again(sizes, ARRAY_SIZE(sizes), LEAST), 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_model_is_not_two),
		cmocka_unit_test(a_copy_of_a_model_is_found),
		cmocka_unit_test(blocks_of_equal_tensors_differ_a_little),
		cmocka_unit_test(small_blocks_do_not_differ),
		cmocka_unit_test(equal_models_are_counted),
		cmocka_unit_test(a_list_begins_again_in_nearly_its_order),
		cmocka_unit_test(layers_that_are_being_made_are_no_second_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
