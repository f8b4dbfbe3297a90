/* What `make fuzz` does with records, for a moment: the seeds, and seeds with numbers that are
 * changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz_record.c"

#define ROOM 20000

/* Each number of the seed in turn as 0, and as more than 64 bits have digits for. */
static void with_other_numbers(const char *seed)
{
	static const char *const values[] = { "0", "-1", "9223372036854775807", "1e99" };
	static char changed[ROOM + 32];

	for (const char *at = seed; (at = strpbrk(at, ":[,")) && *at;) {
		size_t digits = strspn(++at, "-0123456789");

		for (size_t v = 0; digits && v < ARRAY_SIZE(values); v++) {
			snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - seed), seed,
				 values[v], at + digits);
			fuzz_exactly(changed, strlen(changed));
		}
	}
}

static void seeds(void **state)
{
	static char seed[ROOM];
	int number = 1;

	(void)state;
	for (;; number++) {
		char path[64];
		struct err e = { 0 };
		size_t size;
		json_t *j;
		FILE *f;

		snprintf(path, sizeof(path), "tests/unit/fuzz/corpus/record/%d", number);
		f = fopen(path, "rb");
		if (!f)
			break;
		size = fread(seed, 1, ROOM - 1, f);
		fclose(f);
		seed[size] = 0;
		j = record_parse(seed, size, &e);
		if (!j)
			fail_msg("%s: %s", path, e.text);
		json_decref(j);
		fuzz_exactly(seed, size);
		with_other_numbers(seed);
	}
	assert_int_equal(number, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(seeds) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
