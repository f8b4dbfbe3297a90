/* What is said of the layouts that were simulated. */
#include "simulate/verify_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void pages_of_the_first_two_layouts(void **state)
{
	struct plan_layout layouts[3] = { 0 };
	const struct plan plan = { .fitting = { .at = layouts, .count = 3 } };
	const struct verified_layout list[3] = { { .peak = 3 << 20, .verdict = FITS } };
	static const char last[] =
		"See where it goes: memtrace html '/tmp/my traces/layout-1' '/tmp/my traces/layout-2'\n";
	struct buf out = { 0 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int d = 0; d < DIMENSIONS; d++)
			layouts[i].size[d] = UNSET;
		layouts[i].total = 2 << 20;
	}
	setenv("MEMTRACE_DIR", "/tmp/my traces", 1);
	verify_plan_text(&plan, list, 3, &out);
	assert_non_null(strstr(out.text, " estimate 2.0 MiB  simulated 3.0 MiB  +50.0 %"));
	assert_string_equal(strstr(out.text, "See"), last);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_of_the_first_two_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
