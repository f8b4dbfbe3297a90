/* What `make fuzz` does for ten minutes a reader, for a moment: its seeds, and mutations of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz_config.c"

#define MUTATIONS 300
#define ROOM 65536

/* What readers care about, put anywhere. */
static const char *const pieces[] = { "0",           "-1",
				      "1e308",       "9223372036854775807",
				      "99999999999", "null",
				      "true",        "\"auto\"",
				      "{}",          "[]",
				      "[",           "{",
				      "\"",          "\\",
				      "\n",          ":",
				      ",",           "--",
				      "=",           "&a ",
				      "*a",          "- ",
				      "1.5",         "\xff",
				      "text_config", "\"model_type\":\"gpt2\"" };

static size_t mutate(char *text, size_t length)
{
	for (uint64_t changes = 1 + random_number(5); changes; changes--) {
		const char *piece = pieces[random_number(ARRAY_SIZE(pieces))];
		size_t at = random_number(length + 1), n = strlen(piece), gone = random_number(12);

		if (random_number(3) == 0 && at < length) {
			text[at] ^= (char)(1 << random_number(7));
			continue;
		}
		if (gone > length - at)
			gone = length - at;
		if (length - gone + n > ROOM)
			continue;
		memmove(text + at + n, text + at + gone, length - at - gone);
		memcpy(text + at, piece, n);
		length = length - gone + n;
	}
	return length;
}

static size_t read_seed(const char *reader, int number, char *text)
{
	char *path = xasprintf("tests/unit/fuzz/corpus/%s/%d", reader, number);
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(text, 1, ROOM, f) : 0;

	if (f)
		fclose(f);
	free(path);
	return n;
}

static void seeds(void **state)
{
	(void)state;
	for (const struct fuzz_reader *r = fuzz_readers; r->name; r++) {
		char seed[ROOM], text[ROOM];
		int number = 1;
		size_t length;

		for (; (length = read_seed(r->name, number, seed)); number++) {
			fuzz_one(r, (const uint8_t *)seed, length);
			for (int i = 0; i < MUTATIONS; i++) {
				memcpy(text, seed, length);
				fuzz_one(r, (const uint8_t *)text, mutate(text, length));
			}
		}
		if (number == 1)
			fail_msg("no seeds for %s", r->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(seeds) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
