/* What the preload recorded of optimizers tells which graphs and gradients nobody uses. */
#include "choice.h"

/* A forward pass of the third step. The optimizer has 50 MiB of the 200 MiB of parameters; graphs
 * of 900 MiB lead to none of them. */
static struct metrics needless_pass(void)
{
	struct metrics m = failure_in_forward();

	m.step = m.steps = 3;
	m.optimizers_known = 1;
	m.optimized = 50 * MIB;
	m.optimized_used = 1;
	m.needless = 900 * MIB;
	return m;
}

static void a_graph_that_leads_to_nothing_trained_is_needless(void **state)
{
	struct metrics m = needless_pass();

	(void)state;
	assert_int_equal(assert_cause(&m, "UNOPTIMIZED_GRAPH"), 900 * MIB);
	/* Less than 15 % explains little. */
	m.needless = 300 * MIB;
	assert_cause(&m, "ACT_PEAK");
	m.needless = 900 * MIB;
	m.optimized_replaced = 1;
	assert_int_equal(confidence_of_cause(&m), 0);
	/* An average of the weights of another model is changed too. */
	m.optimized_replaced = 0;
	m.unowned_changed = 1;
	m.twin = m.param_copies = 90 * MIB;
	assert_cause(&m, "UNOPTIMIZED_GRAPH");
	m.twin = m.param_copies = 0;
	assert_cause(&m, "ACT_PEAK");
}

static void where_optimizers_are_not_known_nothing_is_needless(void **state)
{
	struct metrics m = needless_pass();

	(void)state;
	m.optimizers_known = 0;
	assert_cause(&m, "ACT_PEAK");
	/* DDP has buckets in place of gradients, and FSDP shards in place of parameters. */
	m = needless_pass();
	m.tags = TAGGED(FSDP);
	assert_cause(&m, "ACT_PEAK");
}

/* Copies of the parameters in another type, which the job copies back itself. */
static void an_optimizer_of_copies_has_no_parameter_of_the_model(void **state)
{
	struct metrics m = needless_pass();

	(void)state;
	m.optimized_used = 0;
	assert_cause(&m, "ACT_PEAK");
	m.step = m.steps = 1;
	assert_cause(&m, "UNOPTIMIZED_GRAPH");
	m.optimized = 100 * MIB;
	assert_cause(&m, "ACT_PEAK");
}

/* In the first step nothing shows yet whether something else trains them, unless the source does.
 */
static void the_first_step_is_less_sure(void **state)
{
	struct metrics m = needless_pass();
	int later = confidence_of_cause(&m);

	(void)state;
	m.step = m.steps = 1;
	assert_int_equal(confidence_of_cause(&m), later - 1);
	m.unoptimized = 100 * MIB;
	assert_int_equal(confidence_of_cause(&m), later);
}

/* Of 600 MiB of gradients 550 are of parameters that no optimizer has. SGD has no states that would
 * tell. */
static void gradients_beyond_what_optimizers_have_are_unused(void **state)
{
	struct metrics m = needless_pass();

	(void)state;
	m.in_forward = m.needless = 0;
	m.in_backward = 1;
	m.activations = 100 * MIB;
	m.parameters = m.gradients = 600 * MIB;
	m.unowned = 550 * MIB;
	assert_int_equal(assert_cause(&m, "GRADIENTS_UNUSED"), 550 * MIB);
	m.unowned = 0;
	assert_cause(&m, "STATIC_PEAK");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_graph_that_leads_to_nothing_trained_is_needless),
		cmocka_unit_test(where_optimizers_are_not_known_nothing_is_needless),
		cmocka_unit_test(an_optimizer_of_copies_has_no_parameter_of_the_model),
		cmocka_unit_test(the_first_step_is_less_sure),
		cmocka_unit_test(gradients_beyond_what_optimizers_have_are_unused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
