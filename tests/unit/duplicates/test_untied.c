/* A copy of the largest parameter that is trained beside it, among live blocks. */
#include "scene.h"

#include "duplicates/untied.h"

static struct untied untied(const struct scene *s, bytes requested)
{
	struct failed_request request = { OPTIMIZER, requested };

	return untied_live(&s->live, &s->all, &s->tables, &request);
}

/* Parameters of 1, 2 and 64 MiB, which a module has, and a copy of the last one, which copy.py
 * made. */
static void tied_by_copy(struct scene *s)
{
	make(s);
	span(s, 0, PHASE_SETUP, 1);
	s->info[SECOND].flags = STACK_FRAMES | HINT_PARAMETERS << STACK_HINT_SHIFT;
	for (uint64_t i = 0; i < 3; i++)
		block(s, 1 + i, SECOND, (i < 2 ? (bytes)i + 1 : 64) * MIB, CATEGORY_PARAMETERS);
	s->info[BATCH].tags = TAGGED(COPY);
	block(s, 5, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	span(s, 10, PHASE_FORWARD, 1);
	s->spans[1].activity = ACTIVITY_MODEL;
}

static void a_copy_of_the_largest_parameter_is_untied(void **state)
{
	struct scene s;

	(void)state;
	tied_by_copy(&s);
	assert_int_equal(untied(&s, 0).bytes, 64 * MIB);
	assert_int_equal(untied(&s, 0).count, 1);
	/* Nobody trains it: it is no parameter. */
	block(&s, 20, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(untied(&s, 0).bytes, 0);
	/* Two weights, two gradients, three states, and the fourth is asked for: eight, half of
	 * them. */
	block(&s, 21, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 22 + i, OPTIMIZER, 64 * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(untied(&s, 64 * MIB).bytes, 4 * 64 * MIB);
}

/* Copies of other parameters too: a second model. And what is made behind the first call is data.
 */
static void a_copy_of_more_is_no_untied_weight(void **state)
{
	struct scene s;

	(void)state;
	tied_by_copy(&s);
	block(&s, 6, BATCH, 2 * MIB, CATEGORY_INPUTS);
	assert_int_equal(untied(&s, 0).bytes, 0);
	tied_by_copy(&s);
	s.list[3].alloc.time_ns = 12;
	assert_int_equal(untied(&s, 0).bytes, 0);
	tied_by_copy(&s);
	assert_int_equal(untied(&s, 0).bytes, 64 * MIB);
	s.info[BATCH].flags |= STACK_INIT;
	assert_int_equal(untied(&s, 0).bytes, 0);
}

/* A copy of the embedding is frozen: both of Adam's states of 64 MiB are the embedding's. */
static void a_frozen_copy_is_no_untied_weight(void **state)
{
	static const bytes of_adam[] = { 1, 1, 2, 2, 64, 64, 64, 64 };
	struct scene s;

	(void)state;
	tied_by_copy(&s);
	for (uint64_t i = 0; i < 6; i++)
		block(&s, 20 + i, OPTIMIZER, of_adam[i] * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(untied(&s, 0).bytes, 0);
	/* Four of them are of two parameters: six blocks, half of them of the copy. */
	for (uint64_t i = 6; i < 8; i++)
		block(&s, 20 + i, OPTIMIZER, of_adam[i] * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(untied(&s, 0).bytes, 3 * 64 * MIB);
	/* States of one size alone: two of one parameter, or one of each. */
	tied_by_copy(&s);
	for (uint64_t i = 0; i < 2; i++)
		block(&s, 20 + i, OPTIMIZER, 64 * MIB, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(untied(&s, 0).bytes, 0);
}

/* x = torch.randn(4096, 4096) beside a Linear of that size, before anything is trained. A gradient
 * of its own shows that it is a weight. */
static void data_of_a_parameters_size_is_no_weight(void **state)
{
	static const enum category of_data[] = { CATEGORY_INPUTS, CATEGORY_OTHER };
	struct scene s;

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		tied_by_copy(&s);
		s.info[BATCH].tags = 0;
		s.list[3].category = (uint8_t)of_data[i];
		assert_int_equal(untied(&s, 0).bytes, 0);
		for (uint64_t k = 0; k < 2; k++)
			block(&s, 20 + k, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
		assert_int_equal(untied(&s, 0).bytes, 2 * 64 * MIB);
	}
}

/* Two parameters are the largest, and each has a copy: a second model. */
static void copies_of_all_the_largest_are_a_model(void **state)
{
	struct scene s;

	(void)state;
	tied_by_copy(&s);
	block(&s, 6, SECOND, 64 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(untied(&s, 0).count, 1);
	block(&s, 7, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(untied(&s, 0).bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_of_the_largest_parameter_is_untied),
		cmocka_unit_test(a_copy_of_more_is_no_untied_weight),
		cmocka_unit_test(a_frozen_copy_is_no_untied_weight),
		cmocka_unit_test(data_of_a_parameters_size_is_no_weight),
		cmocka_unit_test(copies_of_all_the_largest_are_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
