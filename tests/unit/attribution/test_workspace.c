/* Sizes of cuBLAS workspaces, against the values in PyTorch's source (CublasHandlePool.cpp,
 * parseChosenWorkspaceSize()). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "attribution/workspace.h"
#include "util/cublas.h"

static bytes parse(const char *text)
{
	return cublas_workspace_parse((struct str){ text, strlen(text) });
}

static void the_defaults_are_those_of_pytorch(void **state)
{
	(void)state;
	assert_int_equal(CUBLAS_WORKSPACE_HOPPER, 4096 * 8 * 1024);
	assert_int_equal(CUBLAS_WORKSPACE_HOPPER, 33554432);
	assert_int_equal(CUBLAS_WORKSPACE_OTHERS, 4096 * 1024 * 2 + 16 * 1024 * 8);
	assert_int_equal(CUBLAS_WORKSPACE_OTHERS, 8519680);
}

static void a_configuration_is_pairs_of_kib_and_count(void **state)
{
	(void)state;
	assert_int_equal(parse(":4096:8"), CUBLAS_WORKSPACE_HOPPER);
	assert_int_equal(parse(":4096:2:16:8"), CUBLAS_WORKSPACE_OTHERS);
	assert_int_equal(parse(""), 0);
	assert_int_equal(parse(":0:0"), 0);
	assert_int_equal(parse(":4096"), -1);
	assert_int_equal(parse(":4096:"), -1);
	assert_int_equal(parse("4096:8"), -1);
	assert_int_equal(parse(":4096:8 "), -1);
	assert_int_equal(parse(":-1:8"), -1);
	assert_int_equal(parse(":9999999:9999999"), INT64_C(9999999) * 9999999 * 1024);
	assert_int_equal(parse(":99999999:1"), -1);
}

static void a_workspace_has_a_default_size_or_the_configured_one(void **state)
{
	struct meta meta = { .key = { "env:CUBLAS_WORKSPACE_CONFIG", 27 },
			     .value = { ":16:8", 5 } };
	struct tables t = { 0 };
	struct workspace_sizes w = workspace_sizes_of(&t);

	(void)state;
	assert_true(workspace_sizes_have(&w, 33554432));
	assert_true(workspace_sizes_have(&w, 8519680));
	assert_false(workspace_sizes_have(&w, 33562624));
	assert_false(workspace_sizes_have(&w, 131072));
	assert_false(workspace_sizes_have(&w, 0));
	t.meta = &meta;
	t.meta_count = 1;
	w = workspace_sizes_of(&t);
	assert_true(workspace_sizes_have(&w, 131072));
	assert_true(workspace_sizes_have(&w, 8519680));
}

static int last_in(const char *version)
{
	struct meta meta = { .key = { "version:torch", 13 },
			     .value = { version, strlen(version) } };
	struct tables t = { .meta = &meta, .meta_count = 1 };

	return workspaces_last(&t);
}

static void each_product_has_its_own_since_2_15(void **state)
{
	struct tables unknown = { 0 };

	(void)state;
	assert_true(workspaces_last(&unknown));
	assert_true(last_in("2.0.1+cu118"));
	assert_true(last_in("2.14.9"));
	assert_false(last_in("2.15.0a0+git"));
	assert_false(last_in("2.20.1"));
	assert_false(last_in("3.0"));
	assert_true(last_in("unknown"));
	assert_true(last_in(""));
	assert_true(last_in("2"));
	assert_true(last_in("99999999999999999999999.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_defaults_are_those_of_pytorch),
		cmocka_unit_test(a_configuration_is_pairs_of_kib_and_count),
		cmocka_unit_test(each_product_has_its_own_since_2_15),
		cmocka_unit_test(a_workspace_has_a_default_size_or_the_configured_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
