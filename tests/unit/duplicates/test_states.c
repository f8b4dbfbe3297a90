/* States of one optimizer, or of two. */
#include "scene.h"

#include "duplicates/duplicates.h"

#define PARAMETERS 6

static void blocks_of(struct scene *s, int count, bytes size, enum category category)
{
	for (int i = 0; i < count; i++)
		block(s, s->live.count + 1, category == CATEGORY_PARAMETERS ? BATCH : OPTIMIZER,
		      size, category);
}

static void in_the_second_step(struct scene *s)
{
	make(s);
	span(s, 0, PHASE_SETUP, 1);
	span(s, 50, PHASE_OPTIMIZER, 1);
	s->spans[1].activity = ACTIVITY_OPTIMIZER;
	s->all.activities = 1u << ACTIVITY_OPTIMIZER;
	span(s, 100, PHASE_FORWARD, 2);
}

/* In the second step's forward pass, with so many states of each parameter. */
static bytes second_states(bytes rest, int each)
{
	const struct failed_request none = { 0 };
	struct scene s;

	in_the_second_step(&s);
	blocks_of(&s, 2, 5 * MIB, CATEGORY_PARAMETERS);
	blocks_of(&s, PARAMETERS - 2, 5 * MIB + rest, CATEGORY_PARAMETERS);
	blocks_of(&s, each * PARAMETERS, 5 * MIB, CATEGORY_OPTIMIZER_STATES);
	return duplicates_live(&s.live, &s.all, &s.tables, &none, 110).states;
}

/* Four of six parameters have kept a rest of their segments, and no state has. */
static void parameters_of_about_the_size_have_states_too(void **state)
{
	(void)state;
	assert_int_equal(second_states(0, 2), 0);
	assert_int_equal(second_states(0, 4), 2 * PARAMETERS * 5 * MIB);
	assert_int_equal(second_states(512, 2), 0);
	assert_int_equal(second_states(512, 4), 2 * PARAMETERS * 5 * MIB);
}

/* Layers of 5 MiB and of 5.5, of which each has four states. */
static void two_sizes_beside_each_other_have_states_of_two(void **state)
{
	const struct failed_request none = { 0 };
	struct scene s;

	(void)state;
	in_the_second_step(&s);
	for (int k = 0; k < 2; k++) {
		blocks_of(&s, 3, 5 * MIB + k * (MIB / 2), CATEGORY_PARAMETERS);
		blocks_of(&s, 12, 5 * MIB + k * (MIB / 2), CATEGORY_OPTIMIZER_STATES);
	}
	assert_int_equal(duplicates_live(&s.live, &s.all, &s.tables, &none, 110).states,
			 6 * (5 * MIB + 5 * MIB + MIB / 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_sizes_beside_each_other_have_states_of_two),
		cmocka_unit_test(parameters_of_about_the_size_have_states_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
