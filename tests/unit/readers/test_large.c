/* Large and hostile configurations: the time is linear in their size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "util/buf.h"
#include "patterns/layer_pattern.h"
#include "readers/files.h"
#include "util/err.h"

enum { TRIES = 8, MAX_MILLISECONDS = 20000 };

static double processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A text of N repetitions of PART, in which # is the number of the repetition. */
static void repeat(struct buf *b, const char *before, const char *part, unsigned n,
		   const char *after)
{
	buf_puts(b, before);
	for (unsigned i = 0; i < n; i++) {
		for (const char *p = part; *p; p++) {
			if (*p == '#')
				buf_addf(b, "%u", i);
			else
				buf_add(b, p, 1);
		}
	}
	buf_puts(b, after);
}

/* Reads a text as `--config` does; *e is empty if it is a configuration. */
static double seconds_to_read(const struct buf *b, int is_yaml, struct err *e)
{
	struct config c = { 0 };
	struct reader r;
	double start = processor_seconds();

	reader_init(&r, &c, "x", e);
	(void)r.read_text(&r, b->text, b->length, "x", is_yaml);
	start = processor_seconds() - start;
	config_release(&c);
	return start;
}

static const struct {
	const char *before, *part, *after;
	int is_yaml;
	const char *answer; /* part of the error message; NULL: no error */
} forms[] = {
	{ "", "key_#: #\n", "", 1, NULL },
	{ "{\"a\": 1", ", \"key_#\": #\n", "}", 0, NULL },
	{ "language_model: {}\n", "key_#: {a: #}\n", "", 1, NULL },
	{ "a: ", "[", "", 1, "nested too deep" },
	{ "a: ", "[\n", "", 1, "nested too deep" },
	{ "", "{a: ", "", 1, "nested too deep" },
	{ "", "- ", "", 1, "nested too deep" },
	{ "", "? ", "", 1, "a key that is not text" },
	{ "a: ", "[", "", 0, "nested more than 100 deep" },
	{ "", "k#: &a# 1\n", "", 1, NULL },
	{ "x: &a 1\n", "k#: *a\n", "", 1, NULL },
	{ "", "%TAG !a#! tag:x,2000:\n", "---\na: 1\n", 1, "more than 100 %TAG lines" },
	{ "a: [", "1, ", "1]\n", 1, NULL },
	{ "a: \"", "x\\n", "\"\n", 1, NULL },
	{ "a: b\n", "# \n", "", 1, NULL },
	{ "{\"a\": {\"", "k", "\": 1}}", 0, "a key of" },
	{ "a:\n  ", "k", ": 1\n", 1, NULL },
};

static double seconds_of_form(size_t form, unsigned repetitions)
{
	struct buf b = { 0 };
	struct err e = { "" };
	double seconds;

	repeat(&b, forms[form].before, forms[form].part, repetitions, forms[form].after);
	seconds = seconds_to_read(&b, forms[form].is_yaml, &e);
	if (forms[form].answer && !strstr(e.text, forms[form].answer))
		fail_msg("%s: %s", forms[form].part, e.text);
	buf_release(&b);
	return seconds;
}

/* Four times the input must not take sixteen times as long. The machine's other work makes a
 * measurement longer, never shorter, so the least of several counts. */
static void test_linear(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		double small = INFINITY, large = INFINITY;
		for (int try = 0; try < TRIES && !(large <= 8 * small); try++) {
			small = fmin(small, seconds_of_form(i, 10000));
			large = fmin(large, seconds_of_form(i, 40000));
		}
		if (large > 8 * small + 0.02)
			fail_msg("\"%s\": 10,000 take %.3f s, 40,000 %.3f s", forms[i].part, small,
				 large);
	}
}

/* Inputs that once took more than a minute, which no machine's noise explains. */
static void test_200000_keys_and_100000_brackets(void **state)
{
	static const struct {
		const char *part;
		unsigned n;
		const char *answer;
	} cases[] = {
		{ "key_#: #\n", 200000, "too many values" },
		{ "key_#: #\n", 190000, "" },
		{ "[", 100000, "nested too deep" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = { 0 };
		struct err e = { "" };
		repeat(&b, "", cases[i].part, cases[i].n, "");
		assert_in_range((uint64_t)(seconds_to_read(&b, 1, &e) * 1000), 0, MAX_MILLISECONDS);
		if (!strstr(e.text, cases[i].answer) || !*cases[i].answer != !*e.text)
			fail_msg("%u of %s: %s", cases[i].n, cases[i].part, e.text);
		buf_release(&b);
	}
}

/* Aliases of a long text, or of a list of aliases, are rejected before they are expanded. */
static void test_large_by_aliases(void **state)
{
	struct buf b = { 0 };
	struct err e = { "" };

	(void)state;
	repeat(&b, "a: &a \"", "0123456789", 100000, "\"\n");
	for (int i = 0; i < 1000; i++)
		buf_addf(&b, "k%d: *a\n", i);
	seconds_to_read(&b, 1, &e);
	assert_non_null(strstr(e.text, "too many values"));
	buf_release(&b);
}

/* The meaning of aliases and anchors. */
static void test_aliases(void **state)
{
	static const struct {
		const char *text, *key, *value;
	} cases[] = {
		{ "a: &x 7\nb: *x\n", "b", "7" },
		{ "&k a: 1\n*k : 2\n", NULL, "\"a\" is given twice" },
		{ "&k a: 1\nb: *k\n", "b", "a" },
		{ "a: &x 1\nb: &x 2\nc: *x\n", "c", "2" },
		{ "a: *x\n", NULL, "x:1: *x is an alias of nothing" },
		{ "a: &x [1, *x]\n", NULL, "x:1: *x stands inside of what it means" },
		{ "a: 1\nb: 2\na: 3\n", NULL, "x:3: \"a\" is given twice" },
		{ "a: {b: 1, b: 2}\n", NULL, "x:1: \"b\" is given twice" },
		{ "a: 1\n---\nb: 2\n", "a", "1" },
		{ "a: 1\n]\n", NULL, "not YAML" },
		{ "", NULL, "x: empty" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = { "" };
		struct doc_node *n = doc_read_yaml(cases[i].text, strlen(cases[i].text), "x", &e);
		if (cases[i].key) {
			assert_non_null(doc_find(n, cases[i].key));
			assert_string_equal(doc_find(n, cases[i].key)->text, cases[i].value);
		} else if (n || !strstr(e.text, cases[i].value)) {
			fail_msg("%s: %s", cases[i].text, e.text);
		}
		doc_free(n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear),
		cmocka_unit_test(test_200000_keys_and_100000_brackets),
		cmocka_unit_test(test_large_by_aliases),
		cmocka_unit_test(test_aliases),
	};

	return cmocka_run_group_tests_name("sizes of configurations", tests, NULL, NULL);
}
