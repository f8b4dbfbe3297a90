/* Evaluations that keep graphs, by the lives of their blocks. */
#include "steps_job.h"

/* A training step, and an evaluation in which `lines` of a model have three blocks each. */
static const struct device *evaluated(struct fixture *f, int lines)
{
	uint32_t call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 validate = write_frame(&f->w, "validate", "/job/train.py", 30);

	make(f, f->setup, 4 * MIB);
	drop_in_backward(f, make(f, f->model, 2 * MIB), 2 * MIB);
	make(f, f->optimizer, MIB);
	for (int line = 0; line < lines; line++) {
		uint32_t layer = stack(
			f, write_frame(&f->w, "Net.forward", "/job/net.py", (uint32_t)(100 + line)),
			call, validate);

		for (int block = 0; block < 3; block++)
			make(f, layer, 8 * MIB);
	}
	return run(f);
}

static void blocks_of_many_lines_are_a_graph(void **state)
{
	assert_int_equal(of(evaluated(*state, 6), CATEGORY_ACTIVATIONS), 6 * 3 * 8);
}

static void blocks_of_few_lines_are_results(void **state)
{
	assert_int_equal(of(evaluated(*state, 5), CATEGORY_ACTIVATIONS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(blocks_of_many_lines_are_a_graph),
		CASE(blocks_of_few_lines_are_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
