/* The samples of a directory's processes. */
#include "live/live_metrics.h"
#include "fixture.h"

/* Two processes are of rank 0 of the run: only the one that began later has samples, in either
 * order. */
static void processes_of_one_rank_have_one_sample(void **state)
{
	struct fixture *f = *state;
	char a[] = "a", b[] = "b";
	struct live_process list[] = {
		{ .run = a, .rank = 0, .state = LIVE_RUNNING, .start_ns = 7, .lost_events = 70 },
		{ .run = a, .rank = -1, .state = LIVE_RUNNING, .start_ns = 5, .lost_events = 50 },
		{ .run = a, .rank = 1, .state = LIVE_RUNNING, .start_ns = 5, .lost_events = 10 },
		{ .run = b, .rank = -1, .state = LIVE_RUNNING, .start_ns = 5, .lost_events = 20 },
		{ .run = b, .rank = 0, .state = LIVE_RUNNING, .start_ns = 6, .lost_events = 60 },
	};
	const struct folder folder = { .list = list, .count = ARRAY_SIZE(list) };
	const char *lost = "memtrace_lost_events_total";
	char path[128], expected[512], text[4096] = "";
	struct err e = { 0 };
	FILE *file;

	snprintf(path, sizeof(path), "%s/out", f->directory);
	assert_int_equal(live_metrics_write(&folder, path, &e), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	snprintf(expected, sizeof(expected),
		 "# TYPE %s counter\n%s{run=\"a\",rank=\"0\"} 70\n%s{run=\"a\",rank=\"1\"} 10\n"
		 "%s{run=\"b\",rank=\"0\"} 60\n# HELP ",
		 lost, lost, lost, lost);
	assert_non_null(strstr(text, expected));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(processes_of_one_rank_have_one_sample,
						fixture_setup_directory, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
