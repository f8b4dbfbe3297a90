#include "util/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static bytes parsed(const char *text)
{
	struct err e = { 0 };
	bytes n = -1;

	return size_parse(text, &n, &e) < 0 ? -1 : n;
}

static void sizes_are_read(void **state)
{
	(void)state;
	assert_int_equal(parsed("0"), 0);
	assert_int_equal(parsed("1024"), 1024);
	assert_int_equal(parsed("80GiB"), 85899345920);
	assert_int_equal(parsed("80 gib"), 85899345920);
	assert_int_equal(parsed("80GB"), 80000000000);
	assert_int_equal(parsed("1.5 GiB"), 1610612736);
	assert_int_equal(parsed("0.1KiB"), 102);
	assert_int_equal(parsed("2TiB"), 2199023255552);
	assert_int_equal(parsed("7KB"), 7000);
	assert_int_equal(parsed("9223372036854775807"), INT64_MAX);
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const wrong[] = { "",
					     " ",
					     "-1",
					     "+1",
					     "GiB",
					     "1G",
					     "1 GiB x",
					     "1.5",
					     "1.GiB",
					     ".5GiB",
					     "0x10",
					     "1e9",
					     "9223372036854775808",
					     "8388608TiB",
					     "8388607.9999999999999TiBB" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(parsed(wrong[i]), -1);
}

static void the_message_quotes_what_was_wrong(void **state)
{
	struct err e = { 0 };
	bytes n;

	(void)state;
	assert_int_equal(size_parse("80 gigs", &n, &e), -1);
	assert_non_null(strstr(e.text, "\"80 gigs\""));
}

static void assert_shown(bytes n, int raw, const char *expected)
{
	struct buf b = { 0 };

	size_add(&b, n, raw);
	assert_string_equal(b.text, expected);
	buf_release(&b);
}

static void assert_digits(const char *size, const char *limit, const char *expected)
{
	bytes n = parsed(size), most = parsed(limit);
	struct buf b = { 0 };

	size_add_digits(&b, n, size_digits(n, most, 0));
	buf_puts(&b, ", at most ");
	size_add_digits(&b, most, size_digits(n, most, 0));
	assert_string_equal(b.text, expected);
	buf_release(&b);
}

/* 1 GiB = 1073741824 bytes. */
static void a_size_and_its_limit_look_different(void **state)
{
	(void)state;
	assert_digits("3GiB", "76GiB", "3.0 GiB, at most 76.0 GiB");
	assert_digits("1.3046875GiB", "1.25GiB", "1.30 GiB, at most 1.25 GiB");
	assert_digits("1.2421875GiB", "1.25GiB", "1.24 GiB, at most 1.25 GiB");
	assert_digits("1.2497GiB", "1.25GiB", "1.2497 GiB, at most 1.2500 GiB");
	assert_digits("1.25GiB", "1.25GiB", "1.25 GiB, at most 1.25 GiB");
	assert_digits("1073741824", "1073741825", "1073741824 bytes, at most 1073741825 bytes");
	assert_digits("1073741825", "1073741825", "1.0 GiB, at most 1.0 GiB");
	assert_digits("512", "0", "512 B, at most 0 B");
	assert_digits("1023MiB", "1GiB", "1023.0 MiB, at most 1.0 GiB");
	assert_int_equal(size_digits(1, 2, 1), 0);
}

static void sizes_are_shown(void **state)
{
	(void)state;
	assert_shown(0, 0, "0 B");
	assert_shown(512, 0, "512 B");
	assert_shown(2048, 0, "2.0 KiB");
	assert_shown(301989888, 0, "288.0 MiB");
	assert_shown(1073741823, 0, "1.0 GiB");
	assert_shown(15139864576, 0, "14.1 GiB");
	assert_shown(15139864576, 1, "15139864576 bytes");
	assert_shown(-2048, 0, "-2.0 KiB");
	assert_shown(INT64_MIN, 0, "-8388608.0 TiB");
}

static void text_is_made_safe(void **state)
{
	static const char dirty[] = "a\033[31m\x80z\xc3\xa9\xc2\x9b";
	struct buf b = { 0 };

	(void)state;
	buf_add_clean(&b, (struct str){ dirty, sizeof(dirty) - 1 });
	assert_string_equal(b.text, "a?[31m\xef\xbf\xbdz\xc3\xa9?");
	assert_int_equal(utf8_width(b.text), 10);
	buf_release(&b);
	buf_add_clean(&b, (struct str){ "a\xe2\x80\xa8z\xe2\x80\xae\xd8\x9c\xe2\x81\xa9", 13 });
	assert_string_equal(b.text, "a\\u2028z\\u202e\\u061c\\u2069");
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(the_message_quotes_what_was_wrong),
		cmocka_unit_test(a_size_and_its_limit_look_different),
		cmocka_unit_test(sizes_are_shown),
		cmocka_unit_test(text_is_made_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
