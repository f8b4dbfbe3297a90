/* What `make fuzz` does with traces, for a moment: its seeds, and mutations of traces made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz_trace.c"

#define MUTATIONS 300
#define ROOM 200000

static void mutated_traces(void **state)
{
	(void)state;
	for (int i = 0; i < MUTATIONS; i++) {
		size_t size;
		unsigned char *file;

		random_state = (uint64_t)i * 2 + 1;
		file = make_trace(&size);
		if (i)
			mutate(file, &size);
		fuzz_exactly(file, size);
		free(file);
	}
}

static void seeds(void **state)
{
	static unsigned char file[ROOM];
	int number = 1;

	(void)state;
	for (;; number++) {
		char path[64];
		FILE *f;

		snprintf(path, sizeof(path), "tests/unit/fuzz/corpus/trace/%d", number);
		f = fopen(path, "rb");
		if (!f)
			break;
		fuzz_exactly(file, fread(file, 1, ROOM, f));
		fclose(f);
	}
	if (number == 1)
		fail_msg("no seeds in tests/unit/fuzz/corpus/trace");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutated_traces),
		cmocka_unit_test(seeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
