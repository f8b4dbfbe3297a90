/* Results that a job keeps which only calls its model. */
#include "calls.h"

static void results_of_calls_are_found(void **state)
{
	struct scene s;
	struct live_inference r;
	bytes cache;

	(void)state;
	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 10; i++) {
		call(&s);
		born(&s, HEAD, 200 * KIB);
	}
	r = found(&s, &cache);
	assert_true(r.is_inference);
	assert_int_equal(cache, 0);
	assert_int_equal(r.results, 10 * 200 * KIB);
	assert_int_equal(r.results_blocks, 10);
	assert_int_equal(r.results_stack, HEAD);
}

/* After `calls` calls of the model, between which the job's own code keeps 300 KiB. */
static struct live_inference keeps_between(int calls)
{
	struct scene s;
	bytes cache;

	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 6; i++) {
		call(&s);
		if (i < calls)
			born(&s, BATCH, 300 * KIB);
	}
	return found(&s, &cache);
}

static void what_own_code_keeps_between_three_calls_are_results(void **state)
{
	struct live_inference r = keeps_between(3);

	(void)state;
	assert_int_equal(r.results, 900 * KIB);
	assert_int_equal(r.results_blocks, 3);
	assert_int_equal(r.results_stack, BATCH);
	assert_int_equal(keeps_between(2).results, 0);
}

/* A small head, which a loop calls `kept` times behind ten calls of the model, and more often for
 * what is dropped at once. */
static struct live_inference keeps_features(int kept, int dropped)
{
	struct scene s;
	bytes cache;

	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 10; i++)
		call(&s);
	for (int i = 0; i < kept; i++)
		born(&s, HEAD, 100 * KIB);
	for (int i = 0; i < dropped; i++)
		transient(&s, HEAD, 100 * KIB);
	return found(&s, &cache);
}

static void a_module_whose_blocks_stay_has_results(void **state)
{
	(void)state;
	assert_int_equal(keeps_features(8, 0).results, 800 * KIB);
	assert_int_equal(keeps_features(8, 8).results, 800 * KIB);
	assert_int_equal(keeps_features(8, 9).results, 0);
	assert_int_equal(keeps_features(7, 0).results, 0);
}

/* Twenty calls, of which one line of the model keeps `each` blocks, and others nothing. */
static int is_inference_with(int each)
{
	struct scene s;
	bytes cache;

	make(&s);
	for (int i = 0; i < 20; i++) {
		span(&s, ACTIVITY_MAIN, 1, 0);
		born(&s, BATCH, 10 * KIB);
		span(&s, ACTIVITY_MODEL, 10, 9);
		transient(&s, FIRST, 100 * KIB);
		for (int k = 0; k < each; k++)
			born(&s, LAYER, 50 * KIB);
		transient(&s, LAYER_OUT, 100 * KIB);
	}
	return found(&s, &cache).is_inference;
}

/* nn.Sequential calls its layers from one line, so that a graph may be of one stack. */
static void several_blocks_of_each_call_are_no_results(void **state)
{
	(void)state;
	assert_true(is_inference_with(1));
	assert_false(is_inference_with(3));
}

/* A call like call(), which fails in its last layer: what a layer makes is there, and so are the
 * outputs of the three calls before. */
static void results_are_there_while_a_call_goes_on(void **state)
{
	struct scene s;
	struct live_inference r;
	bytes cache;

	(void)state;
	make(&s);
	span(&s, ACTIVITY_MODEL, 100, 90);
	for (int i = 0; i < 4; i++) {
		call(&s);
		born(&s, LAYER_OUT, 100 * KIB);
	}
	transient(&s, FIRST, 100 * KIB);
	born(&s, LAYER, 400 * KIB);
	r = found(&s, &cache);
	assert_true(r.is_inference);
	assert_int_equal(r.results, 400 * KIB);
	assert_int_equal(r.results_blocks, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_of_calls_are_found),
		cmocka_unit_test(what_own_code_keeps_between_three_calls_are_results),
		cmocka_unit_test(a_module_whose_blocks_stay_has_results),
		cmocka_unit_test(several_blocks_of_each_call_are_no_results),
		cmocka_unit_test(results_are_there_while_a_call_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
