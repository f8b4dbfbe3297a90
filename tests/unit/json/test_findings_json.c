/* The JSON of a finding's remedies. */
#include "diagnose/diagnose.h"
#include "metrics/metrics.h"
#include "json/findings_json.h"
#include "diagnose/diagnose.h"
#include "report/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

/* The first remedy of the cause of a failure with tensors that are out of proportion. */
static json_t *first_remedy(int whole_measured)
{
	struct metrics m = { .failed = 1,
			     .died = 1,
			     .requested = 256 * MIB,
			     .short_by = 128 * MIB,
			     .device_total = 4 * GIB,
			     .allocated = 2 * GIB,
			     .reserved = 2 * GIB,
			     .step = 2,
			     .huge = 600 * MIB,
			     .huge_sum = 1200 * MIB,
			     .huge_blocks = 2,
			     .without_huge = 1100 * MIB,
			     .whole_measured = whole_measured };
	struct rank rank = { .end = END_OOM, .metrics = &m };
	struct diagnosis d = { 0 };
	struct report report = { .ranks = &rank, .count = 1, .diagnosis = &d };
	json_t *finding, *remedy;

	diagnose(&d, &report);
	assert_true(d.count > 0);
	assert_string_equal(d.findings[0].rule, "HUGE_TENSORS");
	finding = finding_json(&report, 0);
	remedy = json_incref(json_array_get(json_object_get(finding, "remedies"), 0));
	json_decref(finding);
	diagnosis_release(&d);
	return remedy;
}

/* A program that reads saving_bytes alone takes no bound for a saving. */
static void a_bound_is_no_saving(void **state)
{
	json_t *remedy = first_remedy(0);

	(void)state;
	assert_true(json_is_null(json_object_get(remedy, "saving_bytes")));
	assert_string_equal(json_string_value(json_object_get(remedy, "saving_bound")),
			    "at the failure");
	assert_int_equal(json_integer_value(json_object_get(remedy, "saving_bound_bytes")),
			 1100 * MIB);
	json_decref(remedy);
}

static void a_saving_has_no_bound(void **state)
{
	json_t *remedy = first_remedy(1);

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(remedy, "saving_bytes")), 1100 * MIB);
	assert_null(json_object_get(remedy, "saving_bound"));
	assert_null(json_object_get(remedy, "saving_bound_bytes"));
	json_decref(remedy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bound_is_no_saving),
		cmocka_unit_test(a_saving_has_no_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
