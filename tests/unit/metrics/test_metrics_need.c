/* What a job that failed in its first step would have needed. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"

static const struct metrics *failed(struct fixture *f, uint32_t stack, bytes n)
{
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, n, stack);
	return fixture_report(f)->metrics;
}

/* Parameters 100, kept by the pass 30, asked 10: what is there is needed at least. */
static void an_unfinished_pass_shows_the_least(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	make(f, f->setup, 100 * MIB);
	make(f, f->model, 10 * MIB);
	make(f, f->model, 20 * MIB);
	m = failed(f, f->model, 10 * MIB);
	assert_true(m->pass_unfinished && m->whole_is_least);
	assert_int_equal(m->whole_need, 0);
	assert_int_equal(m->moment_need, 140 * MIB);
	assert_int_equal(m->least_need, 140 * MIB);
	assert_int_equal(m->gradients_to_come, 100 * MIB);
	assert_int_equal(m->states_to_come, 200 * MIB);
	assert_false(m->optimizer_known || m->trained_known);
}

static void setting_up_needs_no_step(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	make(f, f->setup, 100 * MIB);
	m = failed(f, f->setup, 10 * MIB);
	assert_false(m->pass_unfinished);
	assert_int_equal(m->moment_need, 0);
}

static void a_pass_without_gradients_trains_nothing(void **state)
{
	struct fixture *f = *state;
	uint32_t line =
		stack(f, write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		      write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		      write_frame(&f->w, "context_decorator.<locals>.decorate_context",
				  TORCH "utils/_contextlib.py", 1));

	make(f, f->setup, 100 * MIB);
	make(f, line, 10 * MIB);
	assert_false(failed(f, line, 10 * MIB)->pass_unfinished);
}

/*
 * Of parameters of 100, those with a gradient of 5 are trained. Adam has made 4 of their states of
 * 10 and asks for 4 more: 2 are to come. The passes had 115 without states, and have 123 with these
 * in the next step: 10 more than the 113 of this moment.
 */
static void gradients_tell_what_is_trained(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	make(f, f->setup, 100 * MIB);
	micro_batch(f);
	make(f, f->optimizer, 4 * MIB);
	m = failed(f, f->optimizer, 4 * MIB);
	assert_true(m->in_optimizer && m->optimizer_known && m->trained_known);
	assert_int_equal(m->moment_need, 113 * MIB);
	assert_int_equal(m->states_to_come, 2 * MIB);
	assert_int_equal(m->passes_to_come, 10 * MIB);
	assert_int_equal(m->whole_need, 125 * MIB);
	assert_true(m->whole_is_least);
}

/* A training step: 20 blocks of 1 MiB wait for their backward pass, and a gradient of 5 MiB comes.
 */
static void train(struct fixture *f, bytes states)
{
	uint64_t kept[20], gradient;

	for (unsigned i = 0; i < 20; i++)
		kept[i] = make(f, f->model, MIB);
	gradient = make_in_backward(f, f->small, 5 * MIB);
	for (unsigned i = 0; i < 20; i++)
		drop_in_backward(f, kept[i], MIB);
	make(f, f->optimizer, states);
	drop(f, f->zero_grad, gradient, 5 * MIB);
}

/*
 * Parameters of 100; the first step's passes need 25 more, and its optimizer makes 10 of states,
 * its last blocks. Each call of an evaluation behind that takes 60 beside them, once and not twice.
 */
static void an_evaluation_has_the_states_already(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m;

	make(f, f->setup, 100 * MIB);
	train(f, 10 * MIB);
	for (unsigned i = 0; i < 20; i++)
		drop(f, f->evaluation, make(f, f->evaluation, 60 * MIB), 60 * MIB);
	m = failed(f, f->model, 10 * MIB);
	assert_true(m->whole_measured);
	assert_int_equal(m->whole_optimizer, 115 * MIB);
	assert_int_equal(m->whole_pass, 170 * MIB);
	assert_int_equal(m->whole_need, 170 * MIB);
}

/* A loss's logits of 20 MiB in each of six layers' blocks: a layer asks, so that the pass goes on.
 */
static void blocks_of_the_logits_size_are_no_loss(void **state)
{
	struct fixture *f = *state;
	uint32_t main = write_frame(&f->w, "main", "/job/train.py", 10),
		 call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		 linear = stack(
			 f, write_frame(&f->w, "Linear.forward", TORCH "nn/modules/linear.py", 1),
			 call, forward);
	const struct metrics *m;

	(void)main;
	make(f, f->setup, 100 * MIB);
	make(f, f->input, MIB);
	for (int i = 0; i < 6; i++)
		make(f, linear, 20 * MIB);
	m = failed(f, f->model, 5 * MIB);
	assert_true(m->pass_unfinished && m->whole_is_least);
	assert_int_equal(m->whole_need, 0);
	assert_int_equal(m->least_need, 226 * MIB);
}

/* A prompt's first call: of 696 MiB that twelve layers of nine lines made, 24 are left, of one
 * line, as keys and values are. */
static void a_cache_of_keys_is_no_graph(void **state)
{
	struct fixture *f = *state;
	uint32_t call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 main = write_frame(&f->w, "main", "/job/train.py", 10), lines[8];
	const struct metrics *m;

	for (uint32_t i = 0; i < ARRAY_SIZE(lines); i++)
		lines[i] = stack(f, write_frame(&f->w, "Net.forward", "/job/net.py", 3 + i), call,
				 main);
	make(f, f->setup, 100 * MIB);
	for (int i = 0; i < 12; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(lines); k++)
			drop(f, lines[k], make(f, lines[k], 7 * MIB), 7 * MIB);
		make(f, f->model, MIB);
		make(f, f->model, MIB);
	}
	m = failed(f, f->model, 5 * MIB);
	assert_false(m->pass_unfinished);
	assert_int_equal(m->moment_need, 0);
}

/* The same, but for the input of each layer, which checkpointing keeps. */
static void checkpointed_layers_keep_a_graph(void **state)
{
	struct fixture *f = *state;
	uint32_t call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 checkpoint = write_frame(&f->w, "checkpoint", TORCH "utils/checkpoint.py", 480),
		 lines[8];

	for (uint32_t i = 0; i < ARRAY_SIZE(lines); i++)
		lines[i] = stack(f, write_frame(&f->w, "Net.forward", "/job/net.py", 3 + i), call,
				 checkpoint);
	make(f, f->setup, 100 * MIB);
	for (int i = 0; i < 12; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(lines); k++)
			drop(f, lines[k], make(f, lines[k], 7 * MIB), 7 * MIB);
		make(f, f->model, 2 * MIB);
	}
	assert_true(failed(f, f->model, 5 * MIB)->pass_unfinished);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_unfinished_pass_shows_the_least),
		CASE(setting_up_needs_no_step),
		CASE(a_pass_without_gradients_trains_nothing),
		CASE(gradients_tell_what_is_trained),
		CASE(an_evaluation_has_the_states_already),
		CASE(blocks_of_the_logits_size_are_no_loss),
		CASE(a_cache_of_keys_is_no_graph),
		CASE(checkpointed_layers_keep_a_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
