#include "util/opt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct {
	const char *output;
	int json, top, color;
	bytes memory;
	struct opt_list values, command;
} got;

static const struct opt rows[] = {
	{ "output", 'o', OPT_TEXT, &got.output, "DIR", "", 0, 0 },
	{ "json", 0, OPT_FLAG, &got.json, NULL, "", 0, 0 },
	{ "top", 0, OPT_COUNT, &got.top, "N", "", 1, 8 },
	{ "memory", 0, OPT_SIZE, &got.memory, "SIZE", "", 0, 0 },
	{ "set", 0, OPT_LIST, &got.values, "K=V", "", 0, 0 },
	{ "color", 0, OPT_CHOICE, &got.color, "auto|always|never", "", 0, 0 },
};

/* Words end with NULL; argv is left as parsing left it. */
static char words[16][40], *argv[17];

static int parse(int stop_at_first, const char *const *from, struct err *e)
{
	struct opt_set set = { .rows = rows,
			       .count = ARRAY_SIZE(rows),
			       .stop_at_first = stop_at_first };
	int argc = 1, n;

	memset(&got, 0, sizeof(got));
	memset(e, 0, sizeof(*e));
	argv[0] = strcpy(words[0], "command");
	for (; *from; from++, argc++)
		argv[argc] = strcpy(words[argc], *from);
	argv[argc] = NULL;
	n = opt_parse(&set, argc, argv, e);
	return set.wants_help ? 100 : n;
}

#define PARSE(stop, e, ...) parse(stop, (const char *const[]){ __VA_ARGS__, NULL }, e)

static void options_stand_anywhere(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(PARSE(0, &e, "a", "--json", "b", "--top=3", "-o", "x", "--color", "never",
			       "--memory", "1KiB"),
			 2);
	assert_string_equal(argv[1], "a");
	assert_string_equal(argv[2], "b");
	assert_null(argv[3]);
	assert_true(got.json);
	assert_int_equal(got.top, 3);
	assert_int_equal(got.color, 2);
	assert_int_equal(got.memory, 1024);
	assert_string_equal(got.output, "x");
}

static void a_command_line_is_left_alone(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(PARSE(1, &e, "-ox", "--", "python", "--json"), 2);
	assert_string_equal(got.output, "x");
	assert_false(got.json);
	assert_int_equal(PARSE(1, &e, "python", "--json", "--", "a"), 4);
	assert_string_equal(argv[3], "--");
	assert_int_equal(PARSE(0, &e, "--", "--json"), 1);
	assert_int_equal(PARSE(1, &e, "--help", "x"), 100);
}

static void options_that_repeat_are_lists(void **state)
{
	struct opt_set set = { .rows = rows, .count = ARRAY_SIZE(rows), .command = &got.command };
	char line[][8] = { "command", "--set", "a=1", "x", "--set=b", "--", "train", "--set" };
	char *words_of[] = { line[0], line[1], line[2], line[3], line[4],
			     line[5], line[6], line[7], NULL };
	char *no_value[] = { line[0], line[1], line[5], line[6], NULL };
	struct err e = { 0 };

	(void)state;
	memset(&got, 0, sizeof(got));
	assert_int_equal(opt_parse(&set, 8, words_of, &e), 1);
	assert_string_equal(words_of[1], "x");
	assert_int_equal(got.values.count, 2);
	assert_string_equal(got.values.at[0], "a=1");
	assert_string_equal(got.values.at[1], "b");
	assert_int_equal(got.command.count, 2);
	assert_string_equal(got.command.at[1], "--set");
	assert_int_equal(opt_parse(&set, 4, no_value, &e), -1);
	assert_string_equal(e.text, "--set needs a value: K=V");
	opt_list_release(&got.values);
	opt_list_release(&got.command);
}

static void mistakes_are_named(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(PARSE(0, &e, "--jsn"), -1);
	assert_string_equal(e.text, "there is no option --jsn; did you mean --json?");
	assert_int_equal(PARSE(0, &e, "--quite-another"), -1);
	assert_string_equal(
		e.text,
		"there is no option --quite-another; there are --output, --json, --top, --memory, --set, --color, --help");
	assert_int_equal(PARSE(0, &e, "--top", "9"), -1);
	assert_string_equal(e.text, "--top is \"9\", expected a number from 1 to 8");
	assert_int_equal(PARSE(0, &e, "--top", "3x"), -1);
	assert_int_equal(PARSE(0, &e, "--top", ""), -1);
	assert_int_equal(PARSE(0, &e, "--top"), -1);
	assert_string_equal(e.text, "--top needs a value: N");
	assert_int_equal(PARSE(0, &e, "--json=1"), -1);
	assert_string_equal(e.text, "--json takes no value");
	assert_int_equal(PARSE(0, &e, "--color", "al"), -1);
	assert_string_equal(e.text, "--color is \"al\", expected one of auto|always|never");
	assert_int_equal(PARSE(0, &e, "--memory", "many"), -1);
	assert_non_null(strstr(e.text, "--memory: \"many\" is not a size"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_stand_anywhere),
		cmocka_unit_test(a_command_line_is_left_alone),
		cmocka_unit_test(options_that_repeat_are_lists),
		cmocka_unit_test(mistakes_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
