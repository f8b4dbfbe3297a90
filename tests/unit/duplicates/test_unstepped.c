/* Gradients among live blocks that no optimizer uses. */
#include "scene.h"

#include "duplicates/unstepped.h"

/* At the last span. */
static bytes unstepped(const struct scene *s)
{
	return unstepped_live(&s->live, &s->all, &s->tables, &s->spans[s->all.count - 1]);
}

static void a_gradient_without_states_is_not_stepped(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	block(&s, 21, MT_NO_STACK, MIB, CATEGORY_GRADIENTS);
	block(&s, 21, MT_NO_STACK, 2 * MIB, CATEGORY_GRADIENTS);
	block(&s, 4, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	block(&s, 22, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	/* A gradient of gradients is of no parameter. */
	block(&s, 23, MT_NO_STACK, 24 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(unstepped(&s), 64 * MIB);
}

/* In the second step, a gradient of the first one is still there: no optimizer has it. One that
 * this step's backward pass has made anew is of an optimizer without states. */
static void a_gradient_that_each_step_makes_anew_is_stepped(void **state)
{
	struct scene s;

	(void)state;
	training(&s);
	span(&s, 24, PHASE_BACKWARD, 2);
	block(&s, 4, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	block(&s, 5, BATCH, 32 * MIB, CATEGORY_PARAMETERS);
	block(&s, 18, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	block(&s, 25, MT_NO_STACK, 32 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(unstepped(&s), 64 * MIB);
}

/* Two models of the same sizes, and one state of each size: the second step has made the gradient
 * of the one that is trained, and what is left of the first step is of the other one. */
static void of_two_models_one_has_states(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	block(&s, 1, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	block(&s, 2, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	block(&s, 10, OPTIMIZER, 64 * MIB, CATEGORY_OPTIMIZER_STATES);
	span(&s, 20, PHASE_BACKWARD, 2);
	block(&s, 8, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(unstepped(&s), 0);
	block(&s, 21, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(unstepped(&s), 64 * MIB);
}

/* A state of 16 MiB is no state in another precision of a parameter of 64 MiB, if the states have
 * the sizes of other parameters. */
static void layers_of_several_widths_have_states_of_their_own(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	for (bytes size = 16 * MIB; size <= 64 * MIB; size *= 2) {
		block(&s, 1, BATCH, size, CATEGORY_PARAMETERS);
		block(&s, 8, MT_NO_STACK, size, CATEGORY_GRADIENTS);
	}
	block(&s, 10, OPTIMIZER, 16 * MIB, CATEGORY_OPTIMIZER_STATES);
	block(&s, 11, OPTIMIZER, 32 * MIB, CATEGORY_OPTIMIZER_STATES);
	span(&s, 20, PHASE_FORWARD, 2);
	assert_int_equal(unstepped(&s), 64 * MIB);
}

/* Blocks as small as the states of narrow adapters have no stack: many of them are states, too. The
 * few scalars of an optimizer without states tell nothing. */
static void states_of_small_matrices_have_no_stack(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	block(&s, 1, BATCH, 64 * MIB, CATEGORY_PARAMETERS);
	block(&s, 8, MT_NO_STACK, 64 * MIB, CATEGORY_GRADIENTS);
	span(&s, 20, PHASE_FORWARD, 2);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 10 + i, MT_NO_STACK, 60 << 10, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(unstepped(&s), 0);
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 14 + i, MT_NO_STACK, 60 << 10, CATEGORY_OPTIMIZER_STATES);
	assert_int_equal(unstepped(&s), 64 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gradient_without_states_is_not_stepped),
		cmocka_unit_test(a_gradient_that_each_step_makes_anew_is_stepped),
		cmocka_unit_test(of_two_models_one_has_states),
		cmocka_unit_test(layers_of_several_widths_have_states_of_their_own),
		cmocka_unit_test(states_of_small_matrices_have_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
