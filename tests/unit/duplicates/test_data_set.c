/* Sets of tensors that several lines made together. */
#include "scene.h"

#include "duplicates/duplicates.h"

/* One line makes 40 MiB before the second step, and another one 5 MiB five times, or `other` once,
 * in that step; the failure is in the third one. */
static bytes beside(enum activity between, bytes other)
{
	const struct failed_request none = { .stack = MT_NO_STACK };
	struct scene s;

	training(&s);
	s.spans[1].activity = (uint8_t)between;
	s.info[FIRST].flags = STACK_FRAMES;
	s.info[FIRST].model_hash = 0;
	for (uint64_t i = 0; i < 5; i++)
		block(&s, 4 + i, BATCH, 8 * MIB, CATEGORY_OTHER);
	for (uint64_t i = 0; i < (other ? 1 : 5); i++)
		block(&s, 21 + i, FIRST, other ? other : 5 * MIB, CATEGORY_OTHER);
	span(&s, 40, PHASE_FORWARD, 3);
	return duplicates_live(&s.live, &s.all, &s.tables, &none, 45).data.beside;
}

/* Inputs and labels. */
static void lines_may_make_a_set_together(void **state)
{
	(void)state;
	assert_int_equal(beside(ACTIVITY_UNKNOWN, 0), 25 * MIB);
}

static void the_model_is_not_called_between_them(void **state)
{
	(void)state;
	assert_int_equal(beside(ACTIVITY_MODEL, 0), 0);
}

/* A quarter of the largest set is 10 MiB. */
static void a_small_tensor_is_no_part_of_a_set(void **state)
{
	(void)state;
	assert_int_equal(beside(ACTIVITY_UNKNOWN, 9 * MIB), 0);
	assert_int_equal(beside(ACTIVITY_UNKNOWN, 10 * MIB), 10 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_may_make_a_set_together),
		cmocka_unit_test(the_model_is_not_called_between_them),
		cmocka_unit_test(a_small_tensor_is_no_part_of_a_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
