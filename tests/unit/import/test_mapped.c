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

static void assert_range(struct mapped range, uint64_t begin, uint64_t end, uint32_t stack)
{
	assert_int_equal(range.begin, begin);
	assert_int_equal(range.end, end);
	assert_int_equal(range.stack, stack);
}

/* Of 100-200 and 200-260, the bytes from 150 to 230 go. */
static void what_is_outside_of_a_cut_stays(void **state)
{
	void *ranges = NULL;
	struct mapped taken;
	struct cut cut;
	int64_t gone = 0;
	int cuts = 0;

	(void)state;
	mapped_add(&ranges, (struct mapped){ 100, 200, 1 });
	mapped_add(&ranges, (struct mapped){ 200, 260, 2 });
	assert_false(mapped_cut(&ranges, 0, 100, &cut));
	for (; mapped_cut(&ranges, 150, 230, &cut); cuts++)
		gone += mapped_size(cut.was) - mapped_size(cut.rest[0]) - mapped_size(cut.rest[1]);
	assert_int_equal(cuts, 2);
	assert_int_equal(gone, 80);
	assert_true(mapped_take(&ranges, 0, 200, &taken));
	assert_range(taken, 100, 150, 1);
	assert_true(mapped_take(&ranges, 0, UINT64_MAX, &taken));
	assert_range(taken, 230, 260, 2);
	assert_null(ranges);
	/* From the middle of one. */
	mapped_add(&ranges, (struct mapped){ 0, 100, 3 });
	assert_true(mapped_cut(&ranges, 40, 60, &cut));
	assert_range(cut.was, 0, 100, 3);
	assert_range(cut.rest[0], 0, 40, 3);
	assert_range(cut.rest[1], 60, 100, 3);
	assert_false(mapped_cut(&ranges, 40, 60, &cut));
	mapped_release(&ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_overlaps_is_taken),
		cmocka_unit_test(what_is_outside_of_a_cut_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
