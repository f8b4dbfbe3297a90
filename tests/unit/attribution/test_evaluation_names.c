/* Functions whose names speak of evaluation, of which training calls some too. */
#include "fixture.h"

#include "attribution/evaluation_names.h"

enum { TRAIN = 1, PREDICT, EVALUATE, FRAMES };
enum { TRAINED = 1, EVALUATED, PREDICTED, STACKS };

static struct mt_frame frames[FRAMES] = { [TRAIN] = { .function = 1, .line = 1 },
					  [PREDICT] = { .function = 2, .line = 9 },
					  [EVALUATE] = { .function = 3, .line = 20 } };
static unsigned char kinds[FRAMES] = { [PREDICT] = FRAME_EVALUATE, [EVALUATE] = FRAME_EVALUATE };
static const uint32_t trained[] = { PREDICT, TRAIN }, evaluated[] = { PREDICT, EVALUATE },
		      predicted[] = { PREDICT };
static struct stack stacks[STACKS] = {
	[TRAINED] = { .frame_count = 2, .frames = trained },
	[EVALUATED] = { .frame_count = 2, .frames = evaluated },
	[PREDICTED] = { .frame_count = 1, .frames = predicted },
};

static void a_name_that_training_calls_too_tells_nothing(void **state)
{
	struct tables t = { .stack_count = STACKS,
			    .stacks = stacks,
			    .frames = frames,
			    .frame_kinds = kinds,
			    .frame_count = FRAMES };
	struct evaluation_names names = { 0 }, of_training = { 0 };

	(void)state;
	assert_true(evaluation_names_tell(&of_training, &t, PREDICTED));
	evaluation_names_add(&names, &t, TRAINED);
	evaluation_names_add(&names, &t, TRAINED);
	assert_int_equal(names.count, 1);
	evaluation_names_join(&of_training, &names);
	assert_false(evaluation_names_tell(&of_training, &t, PREDICTED));
	assert_true(evaluation_names_tell(&of_training, &t, EVALUATED));
	assert_false(evaluation_names_tell(&of_training, &t, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_that_training_calls_too_tells_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
