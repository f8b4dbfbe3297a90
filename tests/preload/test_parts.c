/* The preload's small parts: settings, sizes, the live set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <memtrace/size.h>

#include "record/clock.h"
#include "record/live_set.h"
#include "process/settings.h"
#include "base/text.h"

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		int ok;
		uint64_t bytes;
	} cases[] = {
		{ "0", 1, 0 },
		{ "65536", 1, 65536 },
		{ "64KiB", 1, 65536 },
		{ "512MiB", 1, 536870912 },
		{ "1.5 GiB", 1, 1610612736 },
		{ "80GB", 1, 80000000000 },
		{ "2TiB", 1, 2199023255552 },
		{ "1kb", 1, 1000 },
		{ "8388607TiB", 1, 9223370937343148032 },
		{ "8388608TiB", 0, 0 },
		{ "99999999999999999999", 0, 0 },
		{ "", 0, 0 },
		{ "x", 0, 0 },
		{ "12 parsecs", 0, 0 },
		{ "-1", 0, 0 },
		{ ".", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 0;
		assert_int_equal(memtrace_parse_size(cases[i].text, &bytes), cases[i].ok ? 0 : -1);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void test_text(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 118908520, "113.4 MiB" },
		{ 301989888, "288.0 MiB" },
		{ 24746716160, "23.0 GiB" },
		{ 1610612736, "1.5 GiB" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text t = { 0 };
		text_size(&t, cases[i].bytes);
		assert_string_equal(t.s, cases[i].text);
	}
}

static char complaints[256];

static void complain(const char *name, const char *expected)
{
	strncat(complaints, name, strcspn(name, "="));
	strcat(complaints, expected ? "! " : "? ");
}

static void test_settings(void **state)
{
	(void)state;
	setenv("MEMTRACE_BUDGET", "64MiB", 1);
	setenv("MEMTRACE_STACK_MIN", "many", 1);
	setenv("MEMTRACE_QUIET", "yes", 1);
	setenv("MEMTRACE_RANKS", "0,8-15", 1);
	setenv("MEMTRACE_BUDGETS", "1", 1);
	settings_read(complain);
	assert_string_equal(complaints, "MEMTRACE_STACK_MIN! MEMTRACE_QUIET! MEMTRACE_BUDGETS? ");
	assert_int_equal(settings.BUDGET, 64 << 20);
	assert_int_equal(settings.STACK_MIN, 65536);
	assert_int_equal(settings.QUIET, 0);
	assert_true(settings_rank_chosen(settings.RANKS, 0));
	assert_true(settings_rank_chosen(settings.RANKS, 8));
	assert_true(settings_rank_chosen(settings.RANKS, 15));
	assert_false(settings_rank_chosen(settings.RANKS, 1));
	assert_false(settings_rank_chosen(settings.RANKS, 16));
	assert_true(settings_rank_chosen("", 5));
}

/* Times between readings lie on the line through them, at any slew of CLOCK_MONOTONIC; they
 * never go back. */
static void test_clock(void **state)
{
	static struct clock_history h;
	uint64_t last = 0;

	(void)state;
	clock_remember(&h, (struct clock_reading){ 1000, 5000 });
	assert_int_equal(clock_ns(&h, 77), 5000);
	clock_remember(&h, (struct clock_reading){ 3000, 6000 });
	clock_remember(&h, (struct clock_reading){ 5000, 6500 });
	clock_remember(
		&h, (struct clock_reading){ 4000, 7000 }); /* the counter went back: no reading */
	assert_int_equal(clock_ns(&h, 0), 4500);
	assert_int_equal(clock_ns(&h, 1000), 5000);
	assert_int_equal(clock_ns(&h, 2000), 5500);
	assert_int_equal(clock_ns(&h, 4000), 6250);
	assert_int_equal(clock_ns(&h, 6000), 6750);
	/* ten days of a reading a second: from 2 ppm fast to 2 ppm slow; a billion ticks a second
	 */
	h.recent_count = 0;
	for (uint64_t s = 0, ns = 0; s < 864000; s++, ns += s < 432000 ? 1000002000 : 999998000)
		clock_remember(&h, (struct clock_reading){ s * 1000000000, ns });
	for (uint64_t s = 0; s < 864000; s++) {
		uint64_t ns = clock_ns(&h, s * 1000000000),
			 true_ns = s < 432000 ? s * 1000002000 : 432000 * 4000ull + s * 999998000;

		assert_true(ns >= last && ns + 1000000 > true_ns && ns < true_ns + 1000000);
		last = ns;
	}
}

/* The line between two readings: a counter of 3 GHz, one of 24 MHz, and lines that the formula
 * cannot have, because they are too long or go back. */
static void test_clock_lines(void **state)
{
	const struct clock_line fast = clock_line_of((struct clock_reading){ 1000, 500 },
						     (struct clock_reading){ 4000, 1500 }),
				slow = clock_line_of(
					(struct clock_reading){ 24, 7000 },
					(struct clock_reading){ 24 + 240000, 10007000 });
	static const struct clock_reading bad[][2] = {
		{ { 0, 0 }, { 5000000000, 1000 } }, { { 0, 0 }, { 1000, 5000000000 } },
		{ { 10, 0 }, { 9, 100 } },          { { 10, 100 }, { 20, 99 } },
		{ { 10, 100 }, { 10, 200 } },
	};
	static struct clock_history h;
	struct clock_line line;

	(void)state;
	assert_true(clock_is_on_line(&fast, 1000) && clock_is_on_line(&fast, 4000));
	assert_false(clock_is_on_line(&fast, 999) || clock_is_on_line(&fast, 4001));
	assert_int_equal(clock_at(&fast, 1000), 500);
	assert_in_range(clock_at(&fast, 2500), 999, 1000); /* rounded down */
	assert_in_range(clock_at(&fast, 4000), 1499, 1500);
	assert_true(clock_is_on_line(&slow, 24 + 240000));
	assert_in_range(clock_at(&slow, 24 + 12), 7499, 7500);
	assert_in_range(clock_at(&slow, 24 + 240000), 10006999, 10007000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		line = clock_line_of(bad[i][0], bad[i][1]);
		assert_false(clock_is_on_line(&line, bad[i][0].counter + 1));
	}
	clock_remember(&h, (struct clock_reading){ 1000, 500 });
	line = clock_latest_line(&h);
	assert_false(clock_is_on_line(&line, 1000)); /* one reading is no line */
	clock_remember(&h, (struct clock_reading){ 4000, 1500 });
	line = clock_latest_line(&h);
	assert_true(clock_is_on_line(&line, 4000));
	assert_int_equal(clock_latest(&h).ns, 1500);
}

static void test_clock_is_the_systems(void **state)
{
	static struct clock_history h;

	(void)state;
	clock_begin();
	for (int i = 0; i < 20; i++) {
		uint64_t counter, ns;

		clock_remember(&h, clock_read(clock_uses_counter));
		counter = clock_now();
		ns = now_ns();
		usleep(2000);
		clock_remember(&h, clock_read(clock_uses_counter));
		assert_true(clock_ns(&h, counter) < ns + 1000 &&
			    clock_ns(&h, counter) + 5000000 > ns);
	}
}

/* Random adds and removes against a plain array. */
static void test_liveset(void **state)
{
	static struct {
		uint64_t address;
		int live;
		int64_t bytes;
	} model[3000];
	struct live_set set = { 0 };
	size_t count = 0;

	(void)state;
	srand(1);
	for (size_t i = 0; i < 3000; i++)
		model[i].address = 0x7f0000000000 + (uint64_t)i * 512;
	for (int step = 0; step < 200000; step++) {
		size_t i = (size_t)rand() % 3000;
		struct mt_record *found = live_set_find(&set, MT_TENSOR_ALLOC, model[i].address);
		assert_int_equal(found != NULL, model[i].live);
		if (found) {
			assert_int_equal(found->bytes, model[i].bytes);
			live_set_remove(&set, found);
			count--;
		} else {
			model[i].bytes = step;
			assert_int_equal(
				live_set_add(&set, &(struct mt_record){ .address = model[i].address,
									.bytes = step,
									.kind = MT_TENSOR_ALLOC }),
				0);
			count++;
		}
		model[i].live = !model[i].live;
		assert_int_equal(set.count, count);
	}
	assert_int_equal(live_set_freed_by(MT_POOL_ALLOC), MT_POOL_FREE);
	assert_int_equal(live_set_allocated_by(MT_HOST_FREE), MT_HOST_ALLOC);
	assert_int_equal(live_set_allocated_by(MT_TENSOR_ALLOC), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_liveset),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_clock_lines),
		cmocka_unit_test(test_clock_is_the_systems),
	};

	return cmocka_run_group_tests_name("preload parts", tests, NULL, NULL);
}
