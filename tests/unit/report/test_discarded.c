/* Reports of moments whose records were discarded to stay within the budget. */
#include "json/report_json.h"
#include "render/report_text.h"
#include "owners_job.h"

#include <jansson.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct style style = { .width = 200, .top = 10 };

/* A context of 100 MiB and a cache of 200; 1000 records that were taken back; then the cache is 20.
 */
static void two_ends(struct fixture *f)
{
	sample(f, 100 * MIB);
	fixture_event(f, MT_RESERVED, 0, 200 * MIB, NONE);
	write_segment(&f->w, 1000);
	write_keyframe(&f->w, MT_RESERVED, 0, 20 * MIB, NONE);
	fixture_event(f, MT_RESERVED, 0, 21 * MIB, NONE); /* record 1002 */
}

static json_t *peak_of(struct fixture *f)
{
	json_t *root;

	buf_release(&f->out);
	report_json(&f->report, &f->out);
	root = json_loads(f->out.text, 0, NULL);
	assert_non_null(root);
	return root;
}

static const json_t *in_peak(const json_t *root, const char *key)
{
	const json_t *rank = json_array_get(json_object_get(root, "ranks"), 0);

	return json_object_get(json_object_get(rank, "peak"), key);
}

/* 2660 MiB were counted while the records of that time were taken back: whose they were is not
 * known. */
static void a_device_peak_that_was_given_up(void **state)
{
	struct fixture *f = *state;
	const struct rank *r;
	json_t *root;

	two_ends(f);
	f->w.header.device[0].device_peak = 2660 * MIB;
	f->w.header.device[0].device_peak_sequence = 500 + 1;
	r = fixture_report(f);
	assert_int_equal(r->peak_device, 2660 * MIB);
	assert_true(r->device_peak.unrecorded);
	report_text(&f->report, &style, &f->out);
	assert_non_null(
		strstr(f->out.text,
		       "device      2.6 GiB at its peak, at a moment that is not in the trace; "
		       "300.0 MiB at the highest moment in the trace, 0.00 s; "
		       "100.0 MiB of it outside"));
	assert_non_null(strstr(f->out.text, "     200.0 MiB  67 %  PyTorch's allocator"));
	assert_non_null(strstr(f->out.text, "           0 B   0 %  unexplained\n"));
	assert_non_null(strstr(
		f->out.text,
		"warning     the moment of the device's peak, 2.6 GiB, is not in the trace"));
	root = peak_of(f);
	assert_int_equal(json_integer_value(in_peak(root, "device_bytes")), 2660 * MIB);
	assert_true(json_is_null(in_peak(root, "by_owner")));
	assert_true(json_is_null(in_peak(root, "device_time_s")));
	assert_int_equal(json_array_size(in_peak(root, "not_in_trace")), 1);
	assert_string_equal(json_string_value(json_array_get(in_peak(root, "not_in_trace"), 0)),
			    "device");
	json_decref(root);
}

/* The same where the segment of that record was kept: it is replayed from its keyframe. */
static void a_device_peak_that_was_kept(void **state)
{
	struct fixture *f = *state;
	const struct rank *r;
	json_t *root;

	two_ends(f);
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 2560 * MIB, f->program); /* record 1003 */
	fixture_event(f, MT_DEVICE_FREE, 0x1000, -2560 * MIB, f->program);
	write_segment(&f->w, 1000);
	write_keyframe(&f->w, MT_RESERVED, 0, 20 * MIB, NONE);
	f->w.header.device[0].device_peak = 2681 * MIB;
	f->w.header.device[0].device_peak_sequence = 1003 + 1;
	r = fixture_report(f);
	assert_int_equal(r->peak_device, 2681 * MIB);
	assert_false(r->device_peak.unrecorded);
	report_text(&f->report, &style, &f->out);
	assert_null(strstr(f->out.text, "not in the trace"));
	assert_non_null(strstr(f->out.text, "       2.5 GiB  95 %  application"));
	root = peak_of(f);
	assert_int_equal(
		json_integer_value(json_object_get(in_peak(root, "by_owner"), "application")),
		2560 * MIB);
	assert_int_equal(
		json_integer_value(json_object_get(in_peak(root, "by_owner"), "unexplained")), 0);
	assert_int_equal(json_array_size(in_peak(root, "not_in_trace")), 0);
	json_decref(root);
}

/* Counted, and lost events between: the moment is there, what is more then is nobody's. */
static void a_kept_moment_with_lost_events(void **state)
{
	struct fixture *f = *state;
	const struct rank *r;

	two_ends(f);
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 2560 * MIB, f->program);
	f->w.header.lost_events = 1;
	f->w.header.device[0].device_peak = 2682 * MIB;
	f->w.header.device[0].device_peak_sequence = 1003 + 1;
	r = fixture_report(f);
	assert_false(r->device_peak.unrecorded);
	assert_int_equal(r->peak_device, 2682 * MIB);
	report_text(&f->report, &style, &f->out);
	assert_non_null(strstr(f->out.text, "       1.0 MiB   0 %  unexplained"));
}

static void an_allocated_peak_that_was_given_up(void **state)
{
	struct fixture *f = *state;
	json_t *root;

	two_ends(f);
	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 90 * MIB, f->pytorch);
	f->w.header.device[0].allocated_peak = 150 * MIB;
	fixture_report(f);
	report_text(&f->report, &style, &f->out);
	assert_non_null(
		strstr(f->out.text,
		       "peak        150.0 MiB in tensors, at a moment that is not in the trace"));
	assert_non_null(strstr(f->out.text,
			       "by category tensors at the highest moment in the trace, 90.0 MiB\n"
			       "      90.0 MiB 100 %  parameters"));
	assert_non_null(
		strstr(f->out.text, "largest     at the highest moment in the trace: 90.0 MiB"));
	root = peak_of(f);
	assert_true(json_is_null(in_peak(root, "time_s")));
	assert_string_equal(json_string_value(json_array_get(in_peak(root, "not_in_trace"), 0)),
			    "allocated");
	json_decref(root);
}

static void failures_that_were_given_up(void **state)
{
	struct fixture *f = *state;

	two_ends(f);
	fixture_event(f, MT_TENSOR_OOM, MIB, 64 * MIB, f->pytorch);
	f->w.header.device[0].ooms = 3;
	fixture_report(f);
	report_text(&f->report, &style, &f->out);
	assert_non_null(strstr(f->out.text,
			       "warning     2 of 3 allocations that failed are not in the trace"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_owners, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_device_peak_that_was_given_up), TEST(a_device_peak_that_was_kept),
		TEST(a_kept_moment_with_lost_events),  TEST(an_allocated_peak_that_was_given_up),
		TEST(failures_that_were_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
