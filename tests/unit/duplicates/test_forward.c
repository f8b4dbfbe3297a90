/* What a forward pass makes is no copy of the parameters whose sizes it has by chance; an averaged
 * model is one. */
#include "scene.h"

#include "duplicates/duplicates.h"

/* The job's own code makes three blocks of the parameters' sizes in the forward pass of step 2,
 * after something else ran there. */
static struct duplicates after(enum activity before)
{
	const struct failed_request none = { .stack = MT_NO_STACK };
	struct scene s;

	training(&s);
	s.spans[1].activity = (uint8_t)before;
	span(&s, 25, PHASE_FORWARD, 2);
	s.spans[2].activity = ACTIVITY_MAIN;
	for (uint64_t i = 0; i < 3; i++)
		block(&s, 26 + i, BATCH, (bytes)(i + 1) * MIB, CATEGORY_INPUTS);
	return duplicates_live(&s.live, &s.all, &s.tables, &none, 30);
}

static void what_follows_from_the_models_call_is_no_copy(void **state)
{
	struct duplicates d = after(ACTIVITY_MODEL);

	(void)state;
	assert_int_equal(d.copies, 0);
	assert_int_equal(d.copies_count, 0);
}

static void what_comes_before_it_may_be_one(void **state)
{
	struct duplicates d = after(ACTIVITY_OPTIMIZER);

	(void)state;
	assert_int_equal(d.copies, 6 * MIB);
	assert_int_equal(d.copies_count, 3);
}

/* torch.optim.swa_utils.AveragedModel: one of the blocks is half a MiB larger than its parameter's.
 */
static void an_averaged_model_is_found(void **state)
{
	const struct failed_request none = { .stack = MT_NO_STACK };
	struct scene s;
	struct duplicates d;

	(void)state;
	training(&s);
	s.info[FIRST].tags = TAGGED(COPY);
	s.info[FIRST].flags = STACK_FRAMES | STACK_OPTIMIZER;
	block(&s, 21, FIRST, MIB, CATEGORY_PARAMETERS);
	block(&s, 22, FIRST, 2 * MIB, CATEGORY_PARAMETERS);
	block(&s, 23, FIRST, 3 * MIB + MIB / 2, CATEGORY_PARAMETERS);
	d = duplicates_live(&s.live, &s.all, &s.tables, &none, 30);
	assert_int_equal(d.copies, 6 * MIB + MIB / 2);
	assert_int_equal(d.copies_count, 3);
	/* What the optimizer makes itself is no copy. */
	s.info[FIRST].tags = 0;
	d = duplicates_live(&s.live, &s.all, &s.tables, &none, 30);
	assert_int_equal(d.copies, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_averaged_model_is_found),
		cmocka_unit_test(what_follows_from_the_models_call_is_no_copy),
		cmocka_unit_test(what_comes_before_it_may_be_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
