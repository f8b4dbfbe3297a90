/* What `make fuzz` does with other tools' files, for a moment: the seeds, cut at every length, and
 * with bytes that are changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz_import.c"

#define ROOM 20000
#define MUTATIONS 400

static void mutate(unsigned char *data, size_t size)
{
	static const char *const texts[] = {
		"{", "[", "}", "]", "\"", "\\", ",", "-", "e9", "1e308"
	};

	for (uint64_t changes = 1 + random_number(5); changes--;) {
		size_t at = random_number(size), other = random_number(size);
		const char *text = texts[random_number(sizeof(texts) / sizeof(*texts))];
		size_t length = random_number(40) % (size - (at > other ? at : other));

		switch (random_number(4)) {
		case 0:
			data[at] ^= (unsigned char)(1 << random_number(8));
			break;
		case 1: /* a digit of a number becomes another */
			data[at] = data[at] >= '0' && data[at] <= '9' ? '9' : data[at];
			break;
		case 2:
			memcpy(data + at, text,
			       strlen(text) < size - at ? strlen(text) : size - at);
			break;
		default:
			memmove(data + at, data + other, length);
		}
	}
}

static void seeds(void **state)
{
	static unsigned char seed[ROOM], changed[ROOM];
	int number = 1;

	(void)state;
	for (;; number++) {
		char path[64];
		FILE *f;
		size_t size;

		snprintf(path, sizeof(path), "tests/unit/fuzz/corpus/import/%d", number);
		f = fopen(path, "rb");
		if (!f)
			break;
		size = fread(seed, 1, ROOM, f);
		fclose(f);
		for (size_t length = size; length; length -= length > 200 ? 37 : 1)
			fuzz_exactly(seed, length);
		for (int i = 0; i < MUTATIONS; i++) {
			memcpy(changed, seed, size);
			mutate(changed, size);
			fuzz_exactly(changed, size);
		}
	}
	assert_true(number > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(seeds) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
