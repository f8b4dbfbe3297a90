/* FNV-1a against the values that its authors publish (Fowler, Noll and Vo, test_fnv.c, 64 bits). */
#include <memtrace/fnv.h>

#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void published_values(void **state)
{
	static const struct {
		const char *text;
		uint64_t hash;
	} rows[] = {
		{ "", UINT64_C(0xcbf29ce484222325) },
		{ "a", UINT64_C(0xaf63dc4c8601ec8c) },
		{ "foobar", UINT64_C(0x85944171f73967e8) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *text = rows[i].text;
		size_t half = strlen(text) / 2;

		assert_true(fnv_add(FNV_START, text, strlen(text)) == rows[i].hash);
		/* A content in two parts is the same content. */
		assert_true(fnv_add(fnv_add(FNV_START, text, half), text + half,
				    strlen(text) - half) == rows[i].hash);
	}
}

struct slab_object {
	int64_t number[3];
};

#define SLAB_OBJECTS 1000

/* Every object is zero and overlaps no other, over the ends of slabs too. */
static void objects_are_apart(void **unused)
{
	static struct slab_object *all[SLAB_OBJECTS];
	struct slabs s = { .at = NULL };

	(void)unused;
	for (int64_t i = 0; i < SLAB_OBJECTS; i++) {
		all[i] = slabs_get(&s, sizeof(*all[i]));
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(all[i]->number[k], 0);
			all[i]->number[k] = i + 1;
		}
	}
	for (int64_t i = 0; i < SLAB_OBJECTS; i++)
		for (size_t k = 0; k < 3; k++)
			assert_int_equal(all[i]->number[k], i + 1);
	slabs_release(&s);
	assert_null(s.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(objects_are_apart),
					    cmocka_unit_test(published_values) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
