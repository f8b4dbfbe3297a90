/* Models that stay when the job makes another one of the same sizes. */
#include "scene.h"

#include "duplicates/duplicates.h"

#define PARAMETERS 8

static void model(struct scene *s, uint64_t time_ns, bytes size)
{
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(s, time_ns + i, BATCH, size + (bytes)i * MIB, CATEGORY_PARAMETERS);
}

/* A model, a step of its optimizer, and the time after it. */
static void trained_once(struct scene *s)
{
	make(s);
	span(s, 0, PHASE_SETUP, 1);
	model(s, 1, MIB);
	span(s, 20, PHASE_BACKWARD, 1);
	span(s, 30, PHASE_OPTIMIZER, 1);
	s->spans[2].activity = ACTIVITY_OPTIMIZER;
	s->all.activities = 1u << ACTIVITY_OPTIMIZER;
	span(s, 40, PHASE_FORWARD, 2);
}

static struct duplicates duplicates(const struct scene *s, uint64_t at_ns)
{
	struct failed_request none = { 0 };

	return duplicates_live(&s->live, &s->all, &s->tables, &none, at_ns);
}

/* 1 + 2 + ... + 8 MiB. The model before is the one too many, with gradients of its own or not. */
static void a_model_made_again_leaves_the_one_before(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	trained_once(&s);
	model(&s, 41, MIB);
	d = duplicates(&s, 60);
	assert_int_equal(d.remade, 36 * MIB);
	assert_int_equal(d.copies, 36 * MIB);
	assert_int_equal(d.copies_count, PARAMETERS);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 25, BATCH, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(duplicates(&s, 60).remade, 36 * MIB);
}

/* The next trial of a search is larger. The one before has gradients of before that; a model that
 * grows, as its line adds layers, has new ones. */
static void a_trial_of_other_sizes(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 25, BATCH, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
	model(&s, 41, 100 * MIB);
	assert_int_equal(duplicates(&s, 60).remade, 36 * MIB);
	trained_once(&s);
	model(&s, 41, 100 * MIB);
	span(&s, 50, PHASE_BACKWARD, 2);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 55, BATCH, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

/* The gradients of a model are set to zero, and stay, while its line adds six layers to sixteen. */
static void a_model_grows_by_little(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	model(&s, 9, 20 * MIB);
	for (uint64_t i = 0; i < 2 * PARAMETERS; i++)
		block(&s, 25, BATCH, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
	for (uint64_t i = 0; i < 6; i++)
		block(&s, 41 + i, BATCH, (100 + (bytes)i) * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

/* A head that another line makes, for a second stage of training. */
static void a_head_of_another_line(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 25, BATCH, (bytes)(i + 1) * MIB, CATEGORY_GRADIENTS);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 41 + i, SECOND, (100 + (bytes)i) * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

static void two_models_of_the_set_up_are_trained_in_turn(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	model(&s, 10, MIB);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

/* A model that grows has sizes that were not there. */
static void other_sizes_are_another_model(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	model(&s, 41, 20 * MIB);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

/* The original of a deep copy is trained on. */
static void a_deep_copy_is_no_newer_model(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	s.info[BATCH].tags |= TAGGED(COPY);
	model(&s, 41, MIB);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

/* Two steps have each made one, as for clients or snapshots; one of the set-up is a reference. */
static void deep_copies_of_several_steps_are_replicas(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	s.info[FIRST].tags |= TAGGED(COPY);
	s.info[FIRST].flags = STACK_FRAMES;
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 10 + i, FIRST, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).replicas, 1);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 41 + i, FIRST, (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).replicas, 2);
	assert_int_equal(duplicates(&s, 60).copies, 2 * 36 * MIB);
	assert_int_equal(duplicates(&s, 60).copies_count, 2 * PARAMETERS);
}

/* Two matrices, and vectors that are too small to have stacks. */
static void two_sizes_that_are_all_there_are_a_model(void **state)
{
	struct scene s;

	(void)state;
	trained_once(&s);
	block(&s, 41, BATCH, 3 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).remade, 0);
	block(&s, 42, BATCH, 5 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).remade, 36 * MIB);
	block(&s, 43, BATCH, 20 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(duplicates(&s, 60).remade, 0);
}

/* A service that has called `models` models, each made behind the calls of those before, and makes
 * one more. */
static struct duplicates of_service(uint64_t models, bytes size)
{
	struct scene s;

	make(&s);
	for (uint64_t i = 0; i < models; i++) {
		model(&s, 100 * i + 1, i ? size : MIB);
		span(&s, 100 * i + 50, PHASE_EVALUATION, 1);
		s.spans[i].activity = ACTIVITY_EVALUATION;
	}
	block(&s, 100 * models + 1, BATCH, MIB, CATEGORY_PARAMETERS);
	return duplicates(&s, 100 * models + 2);
}

static void models_that_a_service_made_between_calls_are_kept(void **state)
{
	(void)state;
	assert_int_equal(of_service(4, MIB).remade, 4 * 36 * MIB);
	assert_int_equal(of_service(4, MIB).copies_count, 4 * PARAMETERS);
	/* Two, or a large one with small ones, may all be needed. */
	assert_int_equal(of_service(2, MIB).remade, 0);
	assert_int_equal(of_service(4, MIB / 2).remade, 0);
	assert_int_equal(of_service(4, 4 * MIB).remade, 0);
}

/* Of the second model, in 32 bits so far, the sizes are twice those of the first. */
static void a_model_that_will_be_converted_is_the_same(void **state)
{
	struct scene s;
	struct duplicates d;

	(void)state;
	trained_once(&s);
	for (uint64_t i = 0; i < PARAMETERS; i++)
		block(&s, 41 + i, BATCH, 2 * (bytes)(i + 1) * MIB, CATEGORY_PARAMETERS);
	d = duplicates(&s, 60);
	assert_int_equal(d.remade, 36 * MIB);
}

/* A constructor fails with the first block of another model: its line has made one like it. */
static void a_constructor_that_fails_makes_a_model_again(void **state)
{
	const struct failed_request request = { .stack = OPTIMIZER, .bytes = 9 * MIB };
	struct scene s;

	(void)state;
	trained_once(&s);
	s.info[OPTIMIZER].flags = STACK_FRAMES | STACK_INIT;
	assert_int_equal(duplicates_live(&s.live, &s.all, &s.tables, &request, 60).remade, 0);
	block(&s, 2, OPTIMIZER, 9 * MIB, CATEGORY_BUFFERS);
	assert_int_equal(duplicates_live(&s.live, &s.all, &s.tables, &request, 60).remade,
			 36 * MIB);
	s.info[OPTIMIZER].flags = STACK_FRAMES;
	assert_int_equal(duplicates_live(&s.live, &s.all, &s.tables, &request, 60).remade, 0);
	/* A batch that has a constructor is no model, and another size is another model. */
	s.info[OPTIMIZER].flags = STACK_FRAMES | STACK_INIT;
	s.list[s.live.count - 1].category = CATEGORY_INPUTS;
	assert_int_equal(duplicates_live(&s.live, &s.all, &s.tables, &request, 60).remade, 0);
	s.list[s.live.count - 1].category = CATEGORY_BUFFERS;
	s.list[s.live.count - 1].alloc.bytes = 30 * MIB;
	assert_int_equal(duplicates_live(&s.live, &s.all, &s.tables, &request, 60).remade, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_model_made_again_leaves_the_one_before),
		cmocka_unit_test(two_models_of_the_set_up_are_trained_in_turn),
		cmocka_unit_test(other_sizes_are_another_model),
		cmocka_unit_test(a_deep_copy_is_no_newer_model),
		cmocka_unit_test(deep_copies_of_several_steps_are_replicas),
		cmocka_unit_test(two_sizes_that_are_all_there_are_a_model),
		cmocka_unit_test(models_that_a_service_made_between_calls_are_kept),
		cmocka_unit_test(a_model_that_will_be_converted_is_the_same),
		cmocka_unit_test(a_constructor_that_fails_makes_a_model_again),
		cmocka_unit_test(a_trial_of_other_sizes),
		cmocka_unit_test(a_head_of_another_line),
		cmocka_unit_test(a_model_grows_by_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
