/* The parts of a JSON text, which Python's json module reads likewise. */
#include "fixture.h"
#include "import/json_walk.h"

static struct str str_of(const char *text)
{
	return (struct str){ text, strlen(text) };
}

static void assert_part(struct str part, const char *text)
{
	assert_int_equal(part.length, strlen(text));
	assert_memory_equal(part.at, text, part.length);
}

static void members_and_elements(void **state)
{
	static const char *const keys[] = { "b", "c", "none" };
	const struct str text = str_of(
		" { \"a\" : [1,{\"b\":9}] , \"b\":\"}\\\"\",\"c\":-1.5e3,\"b\":{\"c\":[\"]\"]} } ");
	struct str found[ARRAY_SIZE(keys)], key, value;
	struct json_walk w;

	(void)state;
	assert_int_equal(json_walk_members(text, keys, found, ARRAY_SIZE(keys)), 0);
	assert_part(found[0], "{\"c\":[\"]\"]}"); /* the last of a key */
	assert_part(found[1], "-1.5e3");
	assert_int_equal(found[2].length, 0);
	json_walk_begin(&w, text);
	assert_int_equal(json_walk_next(&w, &key, &value), 1);
	assert_part(key, "a");
	json_walk_begin(&w, value);
	assert_int_equal(json_walk_next(&w, NULL, &value), 1);
	assert_part(value, "1");
	assert_int_equal(json_walk_next(&w, NULL, &value), 1);
	assert_part(value, "{\"b\":9}");
	assert_int_equal(json_walk_next(&w, NULL, &value), 0);
	assert_int_equal(json_walk_next(&w, NULL, &value), 0);
	assert_int_equal(json_walk_members(str_of("[1]"), keys, found, ARRAY_SIZE(keys)), 0);
	assert_int_equal(found[0].length, 0);
	json_walk_begin(&w, str_of("{}"));
	assert_int_equal(json_walk_next(&w, &key, &value), 0);
	json_walk_begin(&w, str_of("7"));
	assert_int_equal(json_walk_next(&w, &key, &value), 0);
}

/* A key ends where its quotes do: not at a zero byte, and not where the wanted one ends. */
static void keys_are_whole(void **state)
{
	static const char text[] = "{\"none\0more\":1,\"nonemore\":2,\"non\":3}";
	static const char *const keys[] = { "none" };
	struct str found;

	(void)state;
	assert_int_equal(json_walk_members((struct str){ text, sizeof(text) - 1 }, keys, &found, 1),
			 0);
	assert_int_equal(found.length, 0);
}

static void damaged_texts(void **state)
{
	static const char *const cases[] = {
		"{\"a\"}",     "{\"a\":}", "{\"a\":1 \"b\":2}", "{\"a\":1,}",
		"{1:2}",       "{\"a\":1", "{\"a\":[1,2}",      "{\"a",
		"{\"a\":\"\\", "{,}",      "{\"a\":@}",
	};
	static const char *const keys[] = { "none" };
	struct str found;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (json_walk_members(str_of(cases[i]), keys, &found, 1) != -1)
			fail_msg("%s is read", cases[i]);
}

static void integers(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {
		{ "0", 0 },
		{ "-7", -7 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
	};
	static const char *const bad[] = { "",      "-",   "1.0", "1e3", "9223372036854775808",
					   "\"1\"", "true" };
	int64_t value;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_true(json_walk_integer(str_of(good[i].text), &value));
		assert_int_equal(value, good[i].value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(json_walk_integer(str_of(bad[i]), &value));
}

static void assert_text(const char *written, size_t most, const char *text)
{
	struct buf b = { 0 };

	buf_puts(&b, "");
	json_walk_add_text(&b, str_of(written), most);
	assert_string_equal(b.text, text);
	buf_release(&b);
}

static void texts_and_escapes(void **state)
{
	(void)state;
	assert_text("\"plain\"", 100, "plain");
	assert_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 100, "\"\\/\b\f\n\r\t");
	assert_text("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", 100,
		    "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	/* Half a pair, no digits, no letter of an escape, a zero, and bytes that are no UTF-8. */
	assert_text("\"\\ud83dx\"", 100, "\xef\xbf\xbdx");
	assert_text("\"\\ude00\"", 100, "\xef\xbf\xbd");
	assert_text("\"\\u12g4\"", 100, "\xef\xbf\xbdu12g4");
	assert_text("\"\\q\"", 100, "\xef\xbf\xbdq");
	assert_text("\"\\u0000\"", 100, "\xef\xbf\xbd");
	assert_text("\"\xff\"", 100, "\xef\xbf\xbd");
	assert_text("\"abcdef\"", 3, "abc");
	assert_text("\"ab\\n\"", 3, "ab\xef\xbf\xbd");
	assert_text("7", 100, "");
	assert_true(json_walk_is_text(str_of("\"cat\""), "cat"));
	assert_false(json_walk_is_text(str_of("\"cats\""), "cat"));
	assert_false(json_walk_is_text(str_of("cat"), "cat"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_and_elements), cmocka_unit_test(keys_are_whole),
		cmocka_unit_test(damaged_texts),        cmocka_unit_test(integers),
		cmocka_unit_test(texts_and_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
