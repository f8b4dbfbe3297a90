/* Blocks that replace others, of a job that a test writes event by event. */
#include "../attribution/steps_job.h"
#include "metrics/metrics.h"
#include "metrics/metrics_replaced.h"

static uint32_t own_line(struct fixture *f)
{
	return write_stack(&f->w, write_module(&f->w, "/torch/lib/libc10_cuda.so"),
			   write_frame(&f->w, "sample", "/job/sample.py", 7), 0, 0, 0);
}

/* A line makes a tensor for each of four layers, round by round, each time `growth` larger, and
 * drops those of the round before. Returns what grows at the failure. */
static bytes growing(struct fixture *f, bytes growth)
{
	uint32_t line = own_line(f);
	uint64_t layer[4] = { 0 };
	bytes size = 2 * MIB;

	for (int round = 0; round < 8; round++, size += growth)
		for (int k = 0; k < 4; k++) {
			uint64_t next = make(f, line, size);

			if (layer[k])
				drop(f, line, layer[k], size - growth);
			layer[k] = next;
		}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	return fixture_report(f)->metrics->growing;
}

static void tensors_of_several_layers_grow_in_turn(void **state)
{
	assert_int_equal(growing(*state, 2 * MIB), 4 * 16 * MIB);
}

static void tensors_of_one_size_do_not_grow(void **state)
{
	assert_int_equal(growing(*state, 0), 0);
}

/* Behind each step, a line makes a tensor larger by the first one's size, `steps` times, and drops
 * the one before; another one is refused. */
static bytes column_by_column(struct fixture *f, int steps)
{
	uint32_t line = own_line(f);
	uint64_t last = 0;

	for (int k = 1; k <= steps; k++) {
		uint64_t next;

		micro_batch(f);
		make(f, f->optimizer, 8 * MIB);
		next = make(f, line, k * 100 * MIB);
		if (last)
			drop(f, line, last, (k - 1) * 100 * MIB);
		last = next;
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, (steps + 1) * 100 * MIB, line);
	return fixture_report(f)->metrics->growing;
}

static void what_was_refused_is_one_more_that_grows(void **state)
{
	assert_int_equal(column_by_column(*state, 3), 300 * MIB + 400 * MIB);
}

static void two_sizes_may_be_chance(void **state)
{
	assert_int_equal(column_by_column(*state, 2), 0);
}

/* Within a step, a line joins parts of 40 MiB, `first` at once to begin with, and drops what it
 * joined before; what is refused is as much larger, or not. */
static bytes joined(struct fixture *f, int first, bytes refused)
{
	uint32_t line = own_line(f);
	uint64_t last = 0;

	micro_batch(f);
	make(f, f->optimizer, 8 * MIB);
	for (int k = first; k < first + 3; k++) {
		uint64_t next = make(f, line, k * 40 * MIB);

		if (last)
			drop(f, line, last, (k - 1) * 40 * MIB);
		last = next;
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, refused, line);
	return fixture_report(f)->metrics->growing;
}

static void parts_of_one_size_are_joined(void **state)
{
	assert_int_equal(joined(*state, 2, 200 * MIB), 160 * MIB + 200 * MIB);
}

static void a_request_of_another_size_is_no_part(void **state)
{
	assert_int_equal(joined(*state, 2, 220 * MIB), 0);
}

static void the_first_of_joined_parts_is_one_or_two(void **state)
{
	assert_int_equal(joined(*state, 4, 280 * MIB), 0);
}

/* A line makes states of 4 MiB more in each of five rounds, and actions of a sixteenth of that;
 * it drops those of the round before, or keeps all. */
static bytes replay(struct fixture *f, int keeps)
{
	uint32_t line = own_line(f);
	uint64_t states = 0, actions = 0;

	for (bytes size = 4 * MIB; size <= 20 * MIB; size += 4 * MIB) {
		uint64_t old_states = states, old_actions = actions;

		states = make(f, line, size);
		if (old_states && !keeps)
			drop(f, line, old_states, size - 4 * MIB);
		actions = make(f, line, size / 16);
		if (old_actions && !keeps)
			drop(f, line, old_actions, (size - 4 * MIB) / 16);
	}
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	return fixture_report(f)->metrics->growing;
}

static void a_replay_buffer_of_two_sizes_grows(void **state)
{
	assert_int_equal(replay(*state, 0), 20 * MIB + 20 * MIB / 16);
}

/* Copies of parameters, of which later layers have larger ones, and each a small bias. */
static void larger_blocks_beside_smaller_ones_replace_none(void **state)
{
	assert_int_equal(replay(*state, 1), 0);
}

/* Four parameters, each converted on the line `where` to a type of `times` its size; then a step.
 */
static bytes widened(struct fixture *f, uint32_t where, int times)
{
	for (bytes size = 4 * MIB; size <= 16 * MIB; size += 4 * MIB) {
		uint64_t old = make(f, f->setup, size);

		make(f, where, times * size);
		drop(f, f->setup, old, size);
	}
	micro_batch(f);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	return fixture_report(f)->metrics->widened;
}

static void a_conversion_to_twice_the_size_widens(void **state)
{
	assert_int_equal(widened(*state, ((struct fixture *)*state)->setup, 2), 80 * MIB);
}

/* The smaller block has the rest of its segment, of 1 MiB, which the larger one lacks twice. */
static void a_rest_of_the_smaller_block_counts_twice(void **state)
{
	struct fixture *f = *state;
	uint64_t old = make(f, f->setup, 28 * MIB);

	make(f, f->setup, 54 * MIB);
	drop(f, f->setup, old, 28 * MIB);
	old = make(f, f->setup, 6 * MIB);
	make(f, f->setup, 10 * MIB);
	drop(f, f->setup, old, 6 * MIB);
	micro_batch(f);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	assert_int_equal(fixture_report(f)->metrics->widened, 54 * MIB);
}

static uint32_t prepares(struct fixture *f)
{
	return write_stack(&f->w, f->c10,
			   write_frame(&f->w, "prepare_model_for_kbit_training",
				       "/p/site-packages/peft/utils/other.py", 209),
			   write_frame(&f->w, "main", "/job/train.py", 10), 0, 0);
}

/* PEFT keeps what bitsandbytes does not quantise in fp32: these are parameters, and no mistake
 * beside a base that is quantised. */
static void what_peft_prepares_is_meant(void **state)
{
	struct fixture *f = *state;

	make(f, f->setup, 40 * MIB);
	assert_int_equal(widened(f, prepares(f), 2), 0);
	assert_int_equal(f->report.ranks[0].metrics->parameters, 120 * MIB);
}

static void a_base_that_is_not_quantised_becomes_twice_as_large(void **state)
{
	assert_int_equal(widened(*state, prepares(*state), 2), 80 * MIB);
}

/* The allocator leaves up to 1 MiB with a block. */
static void a_conversion_may_get_a_larger_block(void **state)
{
	struct fixture *f = *state;

	for (bytes size = 4 * MIB; size <= 16 * MIB; size += 4 * MIB) {
		uint64_t old = make(f, f->setup, size);

		make(f, f->setup, 2 * size + MIB / 2);
		drop(f, f->setup, old, size);
	}
	micro_batch(f);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	assert_int_equal(fixture_report(f)->metrics->widened, 82 * MIB);
}

/* p.data = p.data.to(torch.float64): no frame says that it is a parameter. */
static void the_jobs_own_code_may_convert(void **state)
{
	assert_int_equal(widened(*state, own_line(*state), 2), 80 * MIB);
}

/* Five tensors of one size are converted; or a line doubles a tensor, buf = torch.cat([buf, buf]),
 * from 4 to 64 MiB. */
static bytes widened_data(struct fixture *f, int doubles)
{
	uint32_t line = own_line(f);
	uint64_t buf = make(f, line, 2 * MIB);

	for (bytes size = 4 * MIB; size <= 64 * MIB; size *= 2) {
		bytes of = doubles ? size : 64 * MIB;
		uint64_t old = doubles ? buf : make(f, f->setup, of / 2);

		buf = make(f, line, of);
		drop(f, line, old, of / 2);
	}
	micro_batch(f);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, GIB, f->model);
	return fixture_report(f)->metrics->widened;
}

static void a_data_set_is_no_parameter(void **state)
{
	assert_int_equal(widened_data(*state, 0), 0);
}

static void a_tensor_that_doubles_is_no_parameter(void **state)
{
	assert_int_equal(widened_data(*state, 1), 0);
}

static void a_conversion_to_the_same_size_does_not(void **state)
{
	assert_int_equal(widened(*state, ((struct fixture *)*state)->setup, 1), 0);
}

/* Lines 1 to 5 of the job's own code, each in a step behind one of the model. */
static uint32_t line_of(struct fixture *f, uint32_t line)
{
	return write_stack(&f->w, f->c10, write_frame(&f->w, "weigh", "/job/weigh.py", line), 0, 0,
			   0);
}

enum between { NOTHING, SMALL_FACTOR, OTHER_HALF };

/* A tensor of 64 MiB; what is made `between`, and freed; and three that follow from it, of 128 MiB,
 * the first of which is freed, and the last is refused. */
static const struct metrics *chain(struct fixture *f, enum between between, bytes size)
{
	uint64_t other, product;

	micro_batch(f);
	make(f, f->model, MIB);
	make(f, line_of(f, 1), 64 * MIB);
	other = between ? make(f, line_of(f, 2), between == SMALL_FACTOR ? MIB : 64 * MIB) : 0;
	product = make(f, line_of(f, 3), size);
	make(f, line_of(f, 4), size);
	make(f, line_of(f, 5), size);
	if (other)
		drop(f, f->input, other, between == SMALL_FACTOR ? MIB : 64 * MIB);
	drop(f, f->input, product, size);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, size, line_of(f, 6));
	return fixture_report(f)->metrics;
}

static void products_with_a_wider_type_follow_from_one_tensor(void **state)
{
	const struct metrics *m = chain(*state, SMALL_FACTOR, 128 * MIB);

	assert_int_equal(m->doubled, 3 * 128 * MIB);
	assert_true(m->doubled_once);
}

static void a_conversion_follows_from_one_tensor(void **state)
{
	assert_true(chain(*state, NOTHING, 128 * MIB)->doubled_once);
}

/* torch.cat([x, x.flip(0)]), of a batch that is augmented: the other half is freed. */
static void two_halves_that_are_put_together_are_no_conversion(void **state)
{
	const struct metrics *m = chain(*state, OTHER_HALF, 128 * MIB);

	assert_int_equal(m->doubled, 3 * 128 * MIB);
	assert_false(m->doubled_once);
}

static void a_tensor_of_three_times_the_size_is_no_conversion(void **state)
{
	assert_false(chain(*state, NOTHING, 192 * MIB)->doubled_once);
}

/* A model has a linear layer of 8 MiB. Behind it, the job's own code calls a head of `output`, and
 * makes a tensor of 400 MiB of that, whose head's output is freed then; another one is refused.
 * `is_first`: no backward pass was before, and the model keeps 60 MiB for one. */
static const struct metrics *own_head(struct fixture *f, bytes output, int is_first)
{
	uint32_t linear = write_frame(&f->w, "Linear.forward", TORCH "nn/modules/linear.py", 1),
		 call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		 main = write_frame(&f->w, "main", "/job/train.py", 10);
	uint32_t layer = write_stack(&f->w, f->c10, linear, call, forward, call),
		 head = write_stack(&f->w, f->c10, linear, call, main, 0);
	uint64_t logits;

	for (int i = 0; i < 3 && is_first; i++)
		make(f, f->model, 20 * MIB);
	if (!is_first)
		micro_batch(f);
	make(f, layer, 8 * MIB);
	logits = make(f, head, output);
	make(f, line_of(f, 1), 400 * MIB);
	drop(f, f->input, logits, output);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 400 * MIB, line_of(f, 2));
	return fixture_report(f)->metrics;
}

static void what_follows_from_a_head_are_logits(void **state)
{
	const struct metrics *m = own_head(*state, 400 * MIB, 0);

	assert_int_equal(m->logits, 800 * MIB);
	assert_int_equal(m->logits_blocks, 2);
	assert_int_equal(m->huge_sum, 0);
	/* Two of the three tensors are there at a time: the head's output and one, or the other
	 * two. Beside them are a gradient of 5 MiB and 8 of the layer; the micro-batch had 15. */
	assert_int_equal(m->without_logits, (5 + 8 + 800 - 15) * MIB);
}

/* What the job's own code goes on to do with logits is unknown before the first backward pass. */
static void the_first_loss_of_the_jobs_own_has_no_figure(void **state)
{
	const struct metrics *m = own_head(*state, 400 * MIB, 1);

	assert_int_equal(m->logits, 800 * MIB);
	assert_true(m->loss_is_own);
}

/* (N, 1) and (N,) broadcast to (N, N). */
static void what_is_larger_than_its_head_is_out_of_proportion(void **state)
{
	const struct metrics *m = own_head(*state, 100 * MIB, 0);

	assert_int_equal(m->logits, 0);
	assert_int_equal(m->huge_sum, 800 * MIB);
	assert_string_equal(((struct fixture *)*state)->report.ranks[0].huge_label,
			    "weigh  weigh.py:2");
}

/* Behind a step, the function, which torch's `caller` calls, makes three tensors of 100 MiB; the
 * fourth is refused. */
static const struct metrics *made_in(struct fixture *f, const char *function, const char *caller)
{
	uint32_t line =
		write_stack(&f->w, f->c10, write_frame(&f->w, function, "/job/sample.py", 7),
			    write_frame(&f->w, caller, TORCH "utils/_contextlib.py", 1),
			    write_frame(&f->w, "main", "/job/train.py", 10), 0);

	micro_batch(f);
	make(f, f->optimizer, 8 * MIB);
	for (int i = 0; i < 3; i++)
		make(f, line, 100 * MIB);
	f->w.header.exit_status = 1;
	fixture_event(f, MT_TENSOR_OOM, MIB, 100 * MIB, line);
	return fixture_report(f)->metrics;
}

static void what_a_generation_makes_is_its_own(void **state)
{
	struct fixture *f = *state;
	const struct metrics *m = made_in(f, "Sampler.generate", "call");

	assert_int_equal(m->evaluated, 400 * MIB);
	assert_int_equal(m->evaluated_blocks, 4);
	assert_string_equal(f->report.ranks[0].evaluated_label, "Sampler.generate  sample.py:7");
}

static void what_another_function_makes_is_none_of_a_generation(void **state)
{
	const struct metrics *m = made_in(*state, "Loader.load_all", "call");

	assert_int_equal(m->evaluated, 0);
	assert_int_equal(m->data, 300 * MIB);
	assert_false(m->data_of_no_grad);
	assert_string_equal(((struct fixture *)*state)->report.ranks[0].data_label,
			    "Loader.load_all  sample.py:7");
}

static void results_are_made_under_no_grad(void **state)
{
	const struct metrics *m = made_in(*state, "recall", "no_grad.<locals>.decorate_context");

	assert_int_equal(m->data, 300 * MIB);
	assert_true(m->data_of_no_grad);
}

/* `count` blocks, each of which is replaced by one of `times` its size. */
static bytes converted(int count, int times, int kept)
{
	struct conversions c = { 0 };

	for (int i = 0; i < count; i++) {
		bytes old = 1024 * (1 + i % 3);

		metrics_note_converted(&c, times * old);
		if (i != kept)
			metrics_note_converted(&c, -old);
	}
	return c.most;
}

static void a_row_of_blocks_that_become_twice_as_large_is_converted(void **state)
{
	(void)state;
	assert_int_equal(converted(9, 2, -1), 9 * 2 * 2048); /* 1, 2 and 3 KiB, three times */
	assert_int_equal(converted(7, 2, -1), 0);            /* few blocks may be data */
	assert_int_equal(converted(9, 3, -1), 0);
	assert_int_equal(converted(9, 2, 5), 0); /* a block that stays ends the row */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(tensors_of_several_layers_grow_in_turn),
		CASE(a_replay_buffer_of_two_sizes_grows),
		CASE(larger_blocks_beside_smaller_ones_replace_none),
		CASE(tensors_of_one_size_do_not_grow),
		CASE(what_was_refused_is_one_more_that_grows),
		CASE(two_sizes_may_be_chance),
		CASE(parts_of_one_size_are_joined),
		CASE(a_request_of_another_size_is_no_part),
		CASE(the_first_of_joined_parts_is_one_or_two),
		CASE(a_conversion_to_twice_the_size_widens),
		CASE(the_jobs_own_code_may_convert),
		CASE(what_peft_prepares_is_meant),
		CASE(a_base_that_is_not_quantised_becomes_twice_as_large),
		CASE(a_conversion_may_get_a_larger_block),
		CASE(a_conversion_to_the_same_size_does_not),
		CASE(a_data_set_is_no_parameter),
		CASE(a_tensor_that_doubles_is_no_parameter),
		CASE(products_with_a_wider_type_follow_from_one_tensor),
		CASE(a_conversion_follows_from_one_tensor),
		CASE(two_halves_that_are_put_together_are_no_conversion),
		CASE(a_tensor_of_three_times_the_size_is_no_conversion),
		CASE(what_follows_from_a_head_are_logits),
		CASE(the_first_loss_of_the_jobs_own_has_no_figure),
		CASE(what_is_larger_than_its_head_is_out_of_proportion),
		CASE(what_a_generation_makes_is_its_own),
		CASE(what_another_function_makes_is_none_of_a_generation),
		CASE(results_are_made_under_no_grad),
		CASE(a_row_of_blocks_that_become_twice_as_large_is_converted),
		CASE(a_rest_of_the_smaller_block_counts_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
