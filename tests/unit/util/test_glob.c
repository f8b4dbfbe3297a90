/* util/glob.c beside the plainest definition of a pattern, for all short texts and patterns. */
#include "util/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int plain(const char *text, const char *pattern)
{
	if (!*pattern)
		return !*text;
	if (*pattern == '*')
		return plain(text, pattern + 1) || (*text && plain(text + 1, pattern));
	return *text == *pattern && plain(text + 1, pattern + 1);
}

/* The text of index `n` over the letters, shorter ones first. */
static void spell(size_t n, const char *letters, char *out)
{
	size_t base = strlen(letters);

	for (; n; n = (n - 1) / base)
		*out++ = letters[(n - 1) % base];
	*out = 0;
}

static void test_every_short_pattern(void **state)
{
	size_t matches = 0;

	(void)state;
	for (size_t p = 0; p < 1093; p++)
		for (size_t t = 0; t < 127; t++) {
			char pattern[16], text[16];
			int found;

			spell(p, "ab*", pattern);
			spell(t, "ab", text);
			found = str_matches((struct str){ text, strlen(text) }, pattern);
			if (found != plain(text, pattern))
				fail_msg("\"%s\" in \"%s\": %d", pattern, text, found);
			matches += (size_t)found;
		}
	assert_in_range(matches, 1000, 1093 * 127 / 2);
}

static void test_paths(void **state)
{
	const char *path = "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py";
	struct str text = { path, strlen(path) };

	(void)state;
	assert_true(str_matches(text, "*/torch/nn/modules/module.py"));
	assert_true(str_matches(text, "*/site-packages/*/module.py"));
	assert_false(str_matches(text, "*/torch/nn/modules/module.p"));
	assert_false(str_matches(text, "*/modules/*/torch/*"));
	assert_true(str_matches((struct str){ NULL, 0 }, "*"));
	assert_false(str_matches((struct str){ NULL, 0 }, "a*"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_short_pattern),
		cmocka_unit_test(test_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
