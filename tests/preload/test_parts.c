/* The preload's small parts: settings, sizes, the live set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <memtrace/size.h>

#include "clock.h"
#include "liveset.h"
#include "settings.h"
#include "text.h"

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

/* A counter read before its line was drawn must not become a time in the far future. */
static void test_clock(void **state)
{
	const struct clock_line line = { .tsc = 1000,
					 .ns = 5000,
					 .rate = 1ull << 31 }; /* half a ns a tick */

	(void)state;
	assert_int_equal(clock_at(&line, 1000), 5000);
	assert_int_equal(clock_at(&line, 3000), 6000);
	assert_int_equal(clock_at(&line, 900), 5000);
	clock_begin();
	for (uint64_t last = 0, i = 0; i < 1000000; i++) {
		uint64_t now = clock_ns();
		assert_true(now >= last && now < now_ns() + 1000000);
		last = now;
		if (i % 100000 == 0)
			clock_correct();
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
	struct liveset set = { 0 };
	size_t count = 0;

	(void)state;
	srand(1);
	for (size_t i = 0; i < 3000; i++)
		model[i].address = 0x7f0000000000 + (uint64_t)i * 512;
	for (int step = 0; step < 200000; step++) {
		size_t i = (size_t)rand() % 3000;
		struct mt_record *found = liveset_find(&set, MT_TENSOR_ALLOC, model[i].address);
		assert_int_equal(found != NULL, model[i].live);
		if (found) {
			assert_int_equal(found->bytes, model[i].bytes);
			liveset_remove(&set, found);
			count--;
		} else {
			model[i].bytes = step;
			assert_int_equal(
				liveset_add(&set, &(struct mt_record){ .address = model[i].address,
								       .bytes = step,
								       .kind = MT_TENSOR_ALLOC }),
				0);
			count++;
		}
		model[i].live = !model[i].live;
		assert_int_equal(set.count, count);
	}
	assert_int_equal(liveset_freed_by(MT_POOL_ALLOC), MT_POOL_FREE);
	assert_int_equal(liveset_begun_by(MT_HOST_FREE), MT_HOST_ALLOC);
	assert_int_equal(liveset_begun_by(MT_TENSOR_ALLOC), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),    cmocka_unit_test(test_text),
		cmocka_unit_test(test_settings), cmocka_unit_test(test_liveset),
		cmocka_unit_test(test_clock),
	};

	return cmocka_run_group_tests_name("preload parts", tests, NULL, NULL);
}
