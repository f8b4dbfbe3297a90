/* Ranges of addresses that are mapped: an unmap takes what overlaps it. */
#include "fixture.h"
#include "import/mapped.h"

static void what_overlaps_is_taken(void **state)
{
	void *ranges = NULL;
	struct mapped taken;

	(void)state;
	mapped_add(&ranges, (struct mapped){ 100, 200, 1 });
	mapped_add(&ranges, (struct mapped){ 200, 260, 2 });
	mapped_add(&ranges, (struct mapped){ 300, 400, 3 });
	assert_false(mapped_take(&ranges, 0, 100, &taken));
	assert_false(mapped_take(&ranges, 260, 300, &taken));
	assert_false(mapped_take(&ranges, 150, 150, &taken)); /* nothing */
	assert_true(mapped_take(&ranges, 199, 200, &taken));
	assert_int_equal(taken.begin, 100);
	assert_int_equal(taken.end, 200);
	assert_int_equal(taken.stack, 1);
	assert_false(mapped_take(&ranges, 100, 200, &taken));
	/* Two ranges, one after the other. */
	assert_true(mapped_take(&ranges, 259, 301, &taken));
	assert_true(mapped_take(&ranges, 259, 301, &taken));
	assert_false(mapped_take(&ranges, 0, UINT64_MAX, &taken));
	mapped_add(&ranges, (struct mapped){ 0, 1, 4 });
	mapped_release(&ranges);
	assert_null(ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_overlaps_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
