/* What hooks of modules store, and the gradient of a table of which few rows are looked up. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

static uint32_t called_by_module(struct fixture *f, const char *function, const char *file)
{
	struct writer *w = &f->w;

	return stack(f, write_frame(w, function, file, 3),
		     write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		     write_frame(w, "main", "/job/train.py", 30));
}

/* The moment is a request of 8 MiB. */
static const struct metrics *refused(struct fixture *f, uint32_t where)
{
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 8 * MIB, where);
	return fixture_report(f)->metrics;
}

/* Four copies of 8 MiB, and the fifth is asked for. What a layer makes, or a hook of PyTorch's own,
 * is no copy of the job's. */
static void what_hooks_make_is_theirs(void **state)
{
	struct fixture *f = *state;
	uint32_t hook = called_by_module(f, "keep.<locals>.hook", "/job/analysis.py"),
		 library = called_by_module(f, "unshard.<locals>.hook", TORCH "distributed/x.py");
	const struct metrics *m;

	make(f, f->setup, 100 * MIB);
	micro_batch(f);
	for (unsigned i = 0; i < 4; i++) {
		make(f, f->model, 16 * MIB);
		make(f, hook, 8 * MIB);
		make(f, library, 4 * MIB);
	}
	m = refused(f, hook);
	assert_int_equal(m->hooked_blocks, 5);
	assert_int_equal(m->hooked, 40 * MIB);
	assert_int_equal(m->hooked_stack, hook);
}

/* A parameter of 100 MiB, made on the stack `maker`, and one of `other` with their gradients, after
 * a look-up of rows of `rows` MiB. */
static const struct metrics *trained_parameter(struct fixture *f, uint32_t maker, bytes rows,
					       bytes other)
{
	struct writer *w = &f->w;
	uint32_t lookup =
		stack(f, write_frame(w, "embedding", TORCH "nn/functional.py", 20),
		      write_frame(w, "Net.forward", "/job/net.py", 2),
		      write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1));
	uint64_t x;

	make(f, maker, 100 * MIB);
	make(f, f->setup, other * MIB);
	x = make(f, lookup, rows * MIB);
	make_in_backward(f, NONE, other * MIB);
	make_in_backward(f, NONE, 100 * MIB);
	drop_in_backward(f, x, rows * MIB);
	return refused(f, f->model);
}

static const struct metrics *trained_table(struct fixture *f, bytes rows, bytes other)
{
	return trained_parameter(f, f->setup, rows, other);
}

static void a_linear_layer_is_no_table(void **state)
{
	struct fixture *f = *state;
	uint32_t linear =
		stack(f, write_frame(&f->w, "Linear.__init__", TORCH "nn/modules/linear.py", 109),
		      write_frame(&f->w, "main", "/job/train.py", 12), 0);

	assert_int_equal(trained_parameter(f, linear, 4, 10)->table_gradient, 0);
}

static void a_gradient_of_rows_that_nobody_looked_up(void **state)
{
	const struct metrics *m = trained_table(*state, 4, 10);

	assert_int_equal(m->table_gradient, 100 * MIB);
	assert_int_equal(m->looked_up, 4 * MIB);
}

static void most_rows_are_looked_up(void **state)
{
	assert_int_equal(trained_table(*state, 30, 10)->table_gradient, 0);
}

/* An output layer has a parameter of that size, too. */
static void a_layer_as_large_as_the_table_has_a_whole_gradient(void **state)
{
	assert_int_equal(trained_table(*state, 4, 60)->table_gradient, 0);
}

/* An optimizer of the job's own makes two stacks of 40 MiB, and what has a parameter's size, 10
 * MiB, may be a state. PyTorch's own is told apart by its file. */
static void an_optimizer_of_the_jobs_own_has_temporaries(void **state)
{
	struct fixture *f = *state;
	struct writer *w = &f->w;
	uint32_t step = stack(f, write_frame(w, "Mine.step", "/job/optimizer.py", 9),
			      write_frame(w, "Optimizer.profile_hook_step.<locals>.wrapper",
					  TORCH "optim/optimizer.py", 567),
			      write_frame(w, "main", "/job/train.py", 50));
	const struct metrics *m;

	make(f, f->setup, 10 * MIB);
	micro_batch(f);
	make(f, step, 10 * MIB);
	make(f, step, 40 * MIB);
	make(f, step, 40 * MIB);
	m = refused(f, step);
	assert_true(m->in_optimizer);
	assert_int_equal(m->own_temporaries, 88 * MIB);
	assert_int_equal(m->optimizer_temporaries, 88 * MIB);
	assert_int_equal(m->huge_sum, 0);
}

/* Logits of 50 MiB, and a parameter of the same size. */
static void parameters_are_no_logits(void **state)
{
	struct fixture *f = *state;
	struct writer *w = &f->w;
	uint32_t loss = stack(f, write_frame(w, "cross_entropy", TORCH "nn/functional.py", 9),
			      write_frame(w, "main", "/job/train.py", 40), 0);
	const struct metrics *m;

	make(f, f->setup, 50 * MIB);
	micro_batch(f);
	make(f, loss, 50 * MIB);
	m = refused(f, loss);
	assert_int_equal(m->logits_block, 50 * MIB);
	assert_int_equal(m->logits_blocks, 1);
	assert_int_equal(m->logits, 50 * MIB);
}

/* Five lines of a loss have a tensor of 20 MiB each, and ask for one more; or one line has all. */
static bytes of_one_function(struct fixture *f, int lines)
{
	struct writer *w = &f->w;
	uint32_t call = write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1), where;
	struct mt_frame line = { .function = write_string(w, "Margin.forward"),
				 .file = write_string(w, "/job/loss.py") };

	make(f, f->setup, 4 * MIB);
	make(f, f->model, 10 * MIB);
	for (uint32_t i = 0; i < 5; i++) {
		line.line = 20 + (lines > 1 ? i : 0);
		where = stack(f, write_entry(w, MT_ENTRY_FRAME, &line, sizeof(line)), call,
			      write_frame(w, "main", "/job/train.py", 40));
		make(f, where, 20 * MIB);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 20 * MIB, where);
	return fixture_report(f)->metrics->one_function;
}

static void lines_of_one_function_make_large_tensors(void **state)
{
	assert_int_equal(of_one_function(*state, 5), 120 * MIB);
}

static void one_line_is_no_function(void **state)
{
	assert_int_equal(of_one_function(*state, 1), 0);
}

/* A data set whose constructor moved it to the GPU, seen in the first step or in a later one. */
static void what_a_data_set_constructs_is_data(void **state)
{
	struct fixture *f = *state;
	uint32_t line = stack(f, write_frame(&f->w, "Nights.__init__", "/job/data.py", 20), 0, 0);
	const struct metrics *m;

	make(f, f->setup, 4 * MIB);
	for (int i = 0; i < 3; i++)
		make(f, line, 66 * MIB);
	micro_batch(f);
	make(f, f->optimizer, 8 * MIB);
	m = refused(f, f->model);
	assert_int_equal(m->data, 198 * MIB);
	assert_int_equal(m->data_blocks, 3);
	assert_int_equal(m->parameters, 4 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_hooks_make_is_theirs, start, fixture_teardown),
		cmocka_unit_test_setup_teardown(a_gradient_of_rows_that_nobody_looked_up, start,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(an_optimizer_of_the_jobs_own_has_temporaries, start,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(parameters_are_no_logits, start, fixture_teardown),
		cmocka_unit_test_setup_teardown(lines_of_one_function_make_large_tensors, start,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(one_line_is_no_function, start, fixture_teardown),
		cmocka_unit_test_setup_teardown(what_a_data_set_constructs_is_data, start,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(most_rows_are_looked_up, start, fixture_teardown),
		cmocka_unit_test_setup_teardown(a_linear_layer_is_no_table, start,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_layer_as_large_as_the_table_has_a_whole_gradient,
						start, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
