/* PyTorch's memory snapshot ends at the moment that is asked for, its annotations too. */
#include "export_job.h"
#include "import/unpickle.h"

#define START_US INT64_C(1700000000000000)

static void step(struct fixture *f, int64_t number)
{
	write_event_on(&f->w, MT_NO_DEVICE, MT_STEP, 0, number, NONE, f->python);
}

/* Each event takes a millisecond; the times on the right are those of the events. */
static void three_steps(struct fixture *f)
{
	step(f, 1);                                           /* 1 */
	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 100, NONE); /* 2 */
	step(f, 2);                                           /* 3 */
	fixture_event(f, MT_TENSOR_ALLOC, 0x2000, 900, NONE); /* 4: the peak */
	fixture_event(f, MT_TENSOR_FREE, 0x2000, -900, NONE); /* 5 */
	fixture_event(f, MT_TENSOR_OOM, 0, GIB, NONE);        /* 6 */
	fixture_event(f, MT_TENSOR_FREE, 0x1000, -100, NONE); /* 7 */
	step(f, 3);                                           /* 8 */
	fixture_event(f, MT_TENSOR_ALLOC, 0x3000, 100, NONE); /* 9 */
	fixture_event(f, MT_TENSOR_FREE, 0x3000, -100, NONE); /* 10 */
}

/* "START NAME MILLISECOND, END NAME MILLISECOND, ..." */
static void annotations_are(struct fixture *f, enum export_moment moment, const char *expected)
{
	struct buf seen = { 0 };
	struct err e = { 0 };
	struct pickle_data data;
	const struct items *list;
	char file_text[1 << 14];
	size_t size = export_process(f, "pytorch", moment, file_text, sizeof(file_text));

	assert_int_equal(unpickle(&data, file_text, size, &e), 0);
	list = list_items(dict_get(data.root, "external_annotations"));
	for (size_t i = 0; i < list->count; i++) {
		struct pickled name = dict_get(list->at[i], "name");
		int64_t us = value_size(dict_get(list->at[i], "time_us"), 0) - START_US;

		buf_addf(&seen, "%s%s %.*s %lld", i ? ", " : "",
			 value_is(dict_get(list->at[i], "stage"), "START") ? "START" : "END",
			 (int)name.length, name.text, (long long)us / 1000);
	}
	assert_string_equal(seen.text, expected);
	pickle_data_release(&data);
	buf_release(&seen);
}

static void annotations_end_at_the_moment(void **state)
{
	struct fixture *f = *state;

	three_steps(f);
	annotations_are(f, MOMENT_PEAK,
			"START step 1 2, END step 1 4, START step 2 4, END step 2 4");
	annotations_are(f, MOMENT_FAILURE,
			"START step 1 2, END step 1 4, START step 2 4, END step 2 6");
	annotations_are(f, MOMENT_END,
			"START step 1 2, END step 1 4, START step 2 4, END step 2 9, "
			"START step 3 9, END step 3 10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(annotations_end_at_the_moment,
						fixture_setup_directory, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
