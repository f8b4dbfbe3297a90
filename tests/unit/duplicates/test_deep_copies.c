/* Copies of models that copy.deepcopy() made. */
#include "scene.h"

#include "duplicates/duplicates.h"

static struct duplicates at(const struct scene *s, uint64_t time_ns)
{
	struct failed_request request = { MT_NO_STACK, 0 };

	return duplicates_live(&s->live, &s->all, &s->tables, &request, time_ns);
}

/* A model of 10, 20 and 30 MiB, and copies of it, which SECOND makes at a time. */
static void model(struct scene *s, uint64_t copies, uint64_t time_ns)
{
	make(s);
	span(s, 0, PHASE_SETUP, 1);
	span(s, 100, PHASE_FORWARD, 1);
	span(s, 200, PHASE_OPTIMIZER, 1);
	s->spans[2].activity = ACTIVITY_OPTIMIZER;
	s->all.activities = 1u << ACTIVITY_OPTIMIZER;
	span(s, 205, PHASE_EVALUATION, 1);
	s->info[SECOND].flags &= ~(uint32_t)STACK_MODULE;
	s->info[SECOND].tags = TAGGED(COPY);
	for (uint64_t i = 0; i < 3; i++)
		block(s, 1 + i, BATCH, (bytes)(i + 1) * 10 * MIB, CATEGORY_PARAMETERS);
	for (uint64_t i = 0; i < 3 * copies; i++)
		block(s, time_ns + i, SECOND, (bytes)(i % 3 + 1) * 10 * MIB, CATEGORY_PARAMETERS);
}

/* A deep copy of its head, or of another layer: no second model. */
static void a_deep_copy_of_a_part_is_no_reference(void **state)
{
	struct scene s;

	(void)state;
	model(&s, 0, 0);
	block(&s, 10, SECOND, 30 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(at(&s, 30).twin, 0);
	block(&s, 11, SECOND, 20 * MIB, CATEGORY_PARAMETERS);
	block(&s, 12, SECOND, 10 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(at(&s, 30).twin, 60 * MIB);
}

/* One may be a reference; two are no references, and no more is one that is made behind a step. */
static void copies_too_many_are_found(void **state)
{
	struct scene s;

	(void)state;
	model(&s, 1, 10);
	assert_int_equal(at(&s, 30).twin, 60 * MIB);
	assert_int_equal(at(&s, 30).copies, 0);
	model(&s, 2, 10);
	assert_int_equal(at(&s, 30).copies, 120 * MIB);
	model(&s, 1, 210);
	assert_int_equal(at(&s, 230).copies, 60 * MIB);
}

/* nn.TransformerEncoder copies its layer; an average of the weights copies whole models. */
static void constructors_copy_layers_or_models(void **state)
{
	struct scene s;

	(void)state;
	model(&s, 2, 10);
	s.info[SECOND].flags |= STACK_INIT;
	assert_int_equal(at(&s, 30).copies, 120 * MIB);
	/* An embedding that is no part of the layers. */
	block(&s, 5, BATCH, 90 * MIB, CATEGORY_PARAMETERS);
	assert_int_equal(at(&s, 30).twin + at(&s, 30).copies, 0);
}

/* 12 copies that copy.deepcopy() made of hidden states, none of a parameter's size. */
static void deep_copies_of_data(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	s.info[SECOND].flags &= ~(uint32_t)STACK_MODULE;
	s.info[SECOND].tags = TAGGED(COPY);
	for (uint64_t i = 0; i < 8; i++) {
		block(&s, 1, BATCH, 4 * MIB, CATEGORY_PARAMETERS);
		block(&s, 21, MT_NO_STACK, 4 * MIB, CATEGORY_GRADIENTS);
	}
	for (uint64_t i = 0; i < 12; i++)
		block(&s, 31, SECOND, 3 * MIB + MIB / 4, CATEGORY_OTHER);
	span(&s, 20, PHASE_BACKWARD, 1);
	span(&s, 30, PHASE_OPTIMIZER, 1);
	assert_int_equal(at(&s, 40).copies, 0);
}

/* copy.deepcopy(model.state_dict()): no parameters, and other rests of segments. */
static void a_copy_of_a_state_dict(void **state)
{
	struct scene s;

	(void)state;
	make(&s);
	span(&s, 0, PHASE_SETUP, 1);
	s.info[SECOND].flags &= ~(uint32_t)STACK_MODULE;
	s.info[SECOND].tags = TAGGED(COPY);
	for (bytes size = 10 * MIB; size <= 30 * MIB; size += 10 * MIB) {
		block(&s, 1, BATCH, size, CATEGORY_PARAMETERS);
		block(&s, 21, MT_NO_STACK, size - MIB / 2, CATEGORY_GRADIENTS);
		block(&s, 31, SECOND, size, CATEGORY_INPUTS);
	}
	span(&s, 20, PHASE_BACKWARD, 1);
	span(&s, 30, PHASE_OPTIMIZER, 1);
	assert_int_equal(at(&s, 40).copies, 60 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_deep_copy_of_a_part_is_no_reference),
		cmocka_unit_test(copies_too_many_are_found),
		cmocka_unit_test(constructors_copy_layers_or_models),
		cmocka_unit_test(deep_copies_of_data),
		cmocka_unit_test(a_copy_of_a_state_dict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
