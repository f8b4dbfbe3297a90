/* The names of the backward pass's blocks, for jobs whose nodes are known. */
#include "attribution/steps_job.h"

#include "backward/backward.h"

#include <inttypes.h>

/* The stacks of Net.forward by line, in the forward pass and in its recomputation. */
static uint32_t lines[10], again[10];

static int start_with_lines(void **state)
{
	struct fixture *f;
	uint32_t call, main, recompute;

	if (start(state) < 0)
		return -1;
	f = *state;
	f->name_all_blocks = 1;
	call = write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1);
	main = write_frame(&f->w, "main", "/job/train.py", 10);
	recompute = write_frame(&f->w, "recompute_fn", TORCH "utils/checkpoint.py", 7);
	for (uint32_t i = 0; i < ARRAY_SIZE(lines); i++) {
		uint32_t frame = write_frame(&f->w, "Net.forward", "/job/net.py", i);

		lines[i] = stack(f, frame, call, main);
		again[i] = stack(f, frame, recompute, 0);
	}
	return 0;
}

/* A block of the backward pass, as the trace records it. */
static struct mt_record made(struct fixture *f, bytes n)
{
	uint64_t address = make_in_backward(f, f->small, n);

	return (struct mt_record){ .time_ns = f->w.time,
				   .address = address,
				   .bytes = n,
				   .stack = f->small,
				   .thread = f->autograd,
				   .kind = MT_TENSOR_ALLOC };
}

static void gone(struct fixture *f, const struct mt_record *r)
{
	drop_in_backward(f, r->address, r->bytes);
}

static void assert_name(struct fixture *f, const struct device *d, const struct mt_record *r,
			const char *expected)
{
	const struct backward *b = &d->backward;
	struct buf name = { 0 };

	origin_add_label(&b->origins[backward_origin(b, r)], &f->trace.tables, &name);
	assert_string_equal(name.text ? name.text : "", expected);
	buf_release(&name);
}

/* Three layers on lines 3 to 5 with outputs of their own sizes; each saves its input. */
struct layers {
	uint64_t x, a, b, c;         /* saved: the input and the outputs */
	struct mt_record loss, g[3]; /* gradients: of the output, and of what is saved */
	struct mt_record temporary;
};

static void forward(struct fixture *f, struct layers *l)
{
	l->x = make(f, lines[2], 10 * MIB);
	l->a = make(f, lines[3], 20 * MIB);
	l->b = make(f, lines[4], 30 * MIB);
	l->c = make(f, lines[5], 40 * MIB);
	make(f, lines[6], 50 * MIB);
}

static void backward(struct fixture *f, struct layers *l, int keeps)
{
	l->loss = made(f, 40 * MIB);
	if (!keeps)
		drop_in_backward(f, l->c, 40 * MIB);
	l->g[2] = made(f, 30 * MIB);
	gone(f, &l->loss);
	if (!keeps)
		drop_in_backward(f, l->b, 30 * MIB);
	l->temporary = made(f, 5 * MIB);
	gone(f, &l->temporary);
	l->g[1] = made(f, 20 * MIB);
	gone(f, &l->g[2]);
	if (!keeps)
		drop_in_backward(f, l->a, 20 * MIB);
	l->g[0] = made(f, 10 * MIB);
	gone(f, &l->g[1]);
	if (!keeps)
		drop_in_backward(f, l->x, 10 * MIB);
}

static void each_node_names_its_blocks(void **state)
{
	struct fixture *f = *state;
	struct layers l;
	const struct device *d;

	forward(f, &l);
	backward(f, &l, 0);
	d = run(f);
	assert_name(f, d, &l.g[2], "Net.forward  net.py:5");
	assert_name(f, d, &l.g[1], "Net.forward  net.py:4");
	assert_name(f, d, &l.temporary, "Net.forward  net.py:4");
	assert_name(f, d, &l.g[0], "Net.forward  net.py:3");
	assert_int_not_equal(backward_forward_stack(&d->backward, &l.g[0]), MT_NO_STACK);
}

/* With retain_graph=True nothing that was saved is freed. */
static void a_kept_graph_gives_no_names(void **state)
{
	struct fixture *f = *state;
	struct layers l;
	const struct device *d;

	forward(f, &l);
	backward(f, &l, 1);
	d = run(f);
	for (unsigned i = 0; i < 3; i++)
		assert_name(f, d, &l.g[i], "");
	assert_int_equal(backward_forward_stack(&d->backward, &l.g[0]), MT_NO_STACK);
}

/* Of two outputs of one size, either may have had the gradient. */
static void places_that_remain_are_a_range(void **state)
{
	struct fixture *f = *state;
	uint64_t x = make(f, lines[2], 10 * MIB), y;
	struct mt_record loss, g;

	make(f, lines[3], 20 * MIB);
	y = make(f, lines[4], 20 * MIB);
	make(f, lines[6], 50 * MIB);
	loss = made(f, 20 * MIB);
	drop_in_backward(f, y, 20 * MIB);
	g = made(f, 10 * MIB);
	gone(f, &loss);
	drop_in_backward(f, x, 10 * MIB);
	assert_name(f, run(f), &g, "Net.forward  net.py:3-4");
}

/* A view or a copy has a node of its own: here it fills a gradient with zeros around a part. */
static void a_view_takes_no_place(void **state)
{
	struct fixture *f = *state;
	uint64_t x = make(f, lines[2], 10 * MIB), y;
	struct mt_record loss, part, g;

	make(f, lines[3], 40 * MIB);
	make(f, lines[4], 20 * MIB);
	y = make(f, lines[6], 30 * MIB);
	loss = made(f, 30 * MIB);
	drop_in_backward(f, y, 30 * MIB);
	part = made(f, 20 * MIB);
	gone(f, &loss);
	g = made(f, 40 * MIB);
	gone(f, &part);
	y = made(f, 10 * MIB).address;
	gone(f, &g);
	drop_in_backward(f, x, 10 * MIB);
	assert_name(f, run(f), &g, "Net.forward  net.py:3-6");
}

/* The allocator leaves up to 1 MiB at the end of a large block. */
static void a_block_may_be_larger_than_its_tensor(void **state)
{
	struct fixture *f = *state;
	uint64_t x = make(f, lines[2], 10 * MIB), y;
	struct mt_record loss, g;

	make(f, lines[3], 20 * MIB);
	y = make(f, lines[4], 20 * MIB + MIB / 2);
	loss = made(f, 20 * MIB);
	drop_in_backward(f, y, 20 * MIB + MIB / 2);
	g = made(f, 10 * MIB);
	gone(f, &loss);
	drop_in_backward(f, x, 10 * MIB);
	assert_name(f, run(f), &g, "Net.forward  net.py:3-4");
}

/* A recurrent layer of cuDNN allocates its output, small states, and then what it saves. */
static void an_output_lies_before_small_blocks_of_its_line(void **state)
{
	struct fixture *f = *state;
	uint64_t saved, y;
	struct mt_record loss, g;

	make(f, lines[2], 10 * MIB);
	make(f, lines[3], 20 * MIB);
	make(f, f->small, MIB / 32);
	saved = make(f, lines[3], 60 * MIB);
	make(f, lines[4], 20 * MIB);
	y = make(f, lines[6], 50 * MIB);
	loss = made(f, 20 * MIB);
	drop_in_backward(f, y, 50 * MIB);
	g = made(f, 10 * MIB);
	gone(f, &loss);
	drop_in_backward(f, saved, 60 * MIB);
	assert_name(f, run(f), &g, "Net.forward  net.py:3-4");
}

/* Recomputation makes the nodes anew, after those of the layers that follow. */
static void recomputed_blocks_are_the_forward_pass_of_their_nodes(void **state)
{
	struct fixture *f = *state;
	struct writer *w = &f->w;
	uint64_t x = make(f, lines[2], 10 * MIB), a, y;
	struct mt_record loss, g, h;

	y = make(f, lines[9], 40 * MIB);
	loss = made(f, 40 * MIB);
	drop_in_backward(f, y, 40 * MIB);
	f->address += 0x1000000;
	a = f->address;
	write_event(w, MT_TENSOR_ALLOC, a, 20 * MIB, again[3], f->autograd);
	f->address += 0x1000000;
	write_event(w, MT_TENSOR_ALLOC, f->address, 40 * MIB, again[4], f->autograd);
	g = made(f, 20 * MIB);
	gone(f, &loss);
	drop_in_backward(f, a, 20 * MIB);
	h = made(f, 10 * MIB);
	gone(f, &g);
	drop_in_backward(f, x, 10 * MIB);
	run(f);
	assert_name(f, &f->replay.device[0], &g, "Net.forward  net.py:4");
	assert_name(f, &f->replay.device[0], &h, "Net.forward  net.py:3");
}

/* What is freed while an error ends the pass is no node's gradient. */
static void out_of_memory_ends_the_pass(void **state)
{
	struct fixture *f = *state;
	struct layers l;
	const struct device *d;

	forward(f, &l);
	l.loss = made(f, 40 * MIB);
	drop_in_backward(f, l.c, 40 * MIB);
	l.g[2] = made(f, 30 * MIB);
	gone(f, &l.loss);
	drop_in_backward(f, l.b, 30 * MIB);
	l.temporary = made(f, 5 * MIB);
	write_event(&f->w, MT_TENSOR_OOM, 0, GIB, f->small, f->autograd);
	gone(f, &l.g[2]);
	gone(f, &l.temporary);
	drop_in_backward(f, l.a, 20 * MIB);
	drop_in_backward(f, l.x, 10 * MIB);
	d = run(f);
	assert_name(f, d, &l.g[2], "Net.forward  net.py:5");
	assert_name(f, d, &l.temporary, "Net.forward  net.py:3-4");
}

/* Blocks of forward passes in any order, and frees of blocks that nobody knows. */
static void many_passes_take_linear_time(void **state)
{
	struct fixture *f = *state;
	struct layers l;
	const struct device *d;

	for (unsigned i = 0; i < 5000; i++) {
		forward(f, &l);
		backward(f, &l, i % 3 == 0);
	}
	d = run(f);
	assert_name(f, d, &l.g[1], "Net.forward  net.py:4");
	assert_in_range(d->backward.origin_count, 4, 16);
}

/* A step with random sizes, of which random blocks stay for ever. In one of four steps the forward
 * pass is repeated; in one of eight it runs out of memory. */
static void draw_step(struct fixture *f, unsigned *seed)
{
	struct mt_record saved[10], gradient[10];
	unsigned layers = 2 + (unsigned)rand_r(seed) % 8, draw = (unsigned)rand_r(seed);

	for (unsigned i = 0; i < layers; i++) {
		bytes n = (1 + rand_r(seed) % 4) * 10 * MIB;

		saved[i] = (struct mt_record){ .address = make(f, lines[i], n), .bytes = n };
	}
	for (unsigned i = layers; i-- > 0;) {
		if (draw % 4 == 1 && i % 2)
			make_in_backward(f, again[i], 5 * MIB);
		if (draw % 3 == 0)
			write_event(&f->w, MT_NODE, 0, 0, rand_r(seed) % 3 ? lines[i] : MT_NO_STACK,
				    f->autograd);
		gradient[i] = made(f, saved[i].bytes);
		if (i + 1 < layers && rand_r(seed) % 16)
			gone(f, &gradient[i + 1]);
		if (rand_r(seed) % 16)
			gone(f, &saved[i]);
		if (draw % 32 == 7 && i == layers / 2)
			write_event(&f->w, MT_TENSOR_OOM, 0, GIB, f->small, f->autograd);
	}
	/* Some gradients are freed by the job, and some never. */
	if (rand_r(seed) % 8)
		drop(f, lines[0], gradient[0].address, gradient[0].bytes);
}

struct labels {
	char *list[1000];
	size_t count;
};

static void add_labels(struct labels *l, const struct snapshot *s, const struct device *d,
		       const struct tables *t)
{
	for (size_t i = 0; i < s->count; i++) {
		struct buf label = { 0 };

		buf_addf(&label, "%" PRId64 " ", s->groups[i].bytes);
		origin_add_label(&d->backward.origins[s->groups[i].origin], t, &label);
		assert_in_range(l->count, 0, ARRAY_SIZE(l->list) - 1);
		l->list[l->count++] = label.text;
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The labels of all groups of blocks in the snapshots of a drawn job, in the order of the texts. */
static struct labels labels_of(void **state, unsigned draw, int name_all_blocks)
{
	struct labels l = { .count = 0 };
	unsigned seed = draw;
	const struct device *d;
	struct fixture *f;

	assert_int_equal(start_with_lines(state), 0);
	f = *state;
	f->name_all_blocks = name_all_blocks;
	for (unsigned steps = 1 + draw % 12; steps > 0; steps--) {
		draw_step(f, &seed);
		/* More blocks than are remembered. */
		for (unsigned i = 0; draw % 50 == 7 && i < FORWARD_BLOCKS + 10; i++)
			drop(f, lines[1], make(f, lines[1], MIB), MIB);
	}
	d = run(f);
	add_labels(&l, &d->at_peak, d, &f->trace.tables);
	for (size_t i = 0; i < d->failure_count; i++)
		add_labels(&l, &d->failures[i].live, d, &f->trace.tables);
	qsort(l.list, l.count, sizeof(*l.list), by_text);
	fixture_teardown(state);
	return l;
}

/* Names that nobody asks for are left out, and the others are the same. */
static void names_do_not_depend_on_those_that_nobody_asks_for(void **state)
{
	unsigned named = 0;

	for (unsigned draw = 0; draw < 300; draw++) {
		struct labels some = labels_of(state, draw, 0), all = labels_of(state, draw, 1);

		assert_int_equal(some.count, all.count);
		for (size_t i = 0; i < some.count; i++) {
			assert_string_equal(some.list[i], all.list[i]);
			named += strstr(some.list[i], "net.py") != NULL;
			free(some.list[i]);
			free(all.list[i]);
		}
	}
	assert_in_range(named, 300, 3000);
}

/* The job says which node runs, and which stack of the forward pass made it. */
static void node(struct fixture *f, uint32_t made_by, const char *name)
{
	write_event(&f->w, MT_NODE, write_string(&f->w, name), 0, made_by, f->autograd);
}

/* With retain_graph=True the order of frees tells nothing. */
static void a_noted_node_names_its_blocks(void **state)
{
	struct fixture *f = *state;
	struct mt_record first, second, third, fourth;
	struct mt_record other;
	const struct device *d;

	make(f, lines[3], 20 * MIB);
	make(f, lines[4], 20 * MIB);
	node(f, lines[4], "MulBackward0");
	first = made(f, 20 * MIB);
	second = made(f, 20 * MIB);
	node(f, lines[3], "MulBackward0");
	third = made(f, 20 * MIB);
	node(f, MT_NO_STACK, "AccumulateGrad");
	fourth = made(f, 5 * MIB);
	make(f, lines[6], MIB);
	d = run(f);
	assert_name(f, d, &first, "Net.forward  net.py:4");
	assert_name(f, d, &second, "Net.forward  net.py:4");
	assert_name(f, d, &third, "Net.forward  net.py:3");
	/* The name of the class alone is no place. */
	assert_name(f, d, &fourth, "");
	assert_int_equal(backward_forward_stack(&d->backward, &fourth), MT_NO_STACK);
	assert_memory_equal(
		tables_string(&f->trace.tables,
			      d->backward.origins[backward_origin(&d->backward, &fourth)].node)
			.at,
		"AccumulateGrad", 14);
	/* A node is the thread's that noted it. */
	other = first;
	other.thread = (uint16_t)(f->autograd + 7);
	assert_int_equal(running_nodes_origin(&d->backward.nodes, &other), 0);
}

/* An operation in place allocates nothing: its line is between those of the nodes around it, unless
 * a loop began anew there, or the trace is damaged. */
static void a_node_may_be_between_two_lines(void **state)
{
	struct fixture *f = *state;
	struct mt_record between, behind, same, damaged;
	const struct device *d;

	make(f, lines[3], 20 * MIB);
	make(f, lines[5], 20 * MIB);
	write_event(&f->w, MT_NODE, write_string(&f->w, "ReluBackward0"), lines[5], lines[3],
		    f->autograd);
	between = made(f, 20 * MIB);
	write_event(&f->w, MT_NODE, write_string(&f->w, "ReluBackward0"), lines[3], lines[5],
		    f->autograd);
	behind = made(f, 20 * MIB);
	write_event(&f->w, MT_NODE, write_string(&f->w, "SplitBackward0"), lines[5], lines[5],
		    f->autograd);
	same = made(f, 20 * MIB);
	write_event(&f->w, MT_NODE, write_string(&f->w, "ReluBackward0"), INT64_C(1) << 40,
		    lines[5], f->autograd);
	damaged = made(f, 20 * MIB);
	d = run(f);
	assert_name(f, d, &between, "Net.forward  net.py:3-5");
	assert_name(f, d, &behind, "");
	assert_name(f, d, &same, "");
	assert_name(f, d, &damaged, "");
}

/* The order of frees names the blocks of a node whose maker is not known. */
static void a_node_without_a_place_leaves_it_to_the_order(void **state)
{
	struct fixture *f = *state;
	struct layers l;

	forward(f, &l);
	node(f, MT_NO_STACK, "ViewBackward0");
	backward(f, &l, 0);
	assert_name(f, run(f), &l.g[2], "Net.forward  net.py:5");
}

#define LINES(name) cmocka_unit_test_setup_teardown(name, start_with_lines, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LINES(each_node_names_its_blocks),
		LINES(a_kept_graph_gives_no_names),
		LINES(places_that_remain_are_a_range),
		LINES(a_view_takes_no_place),
		LINES(a_block_may_be_larger_than_its_tensor),
		LINES(an_output_lies_before_small_blocks_of_its_line),
		LINES(recomputed_blocks_are_the_forward_pass_of_their_nodes),
		LINES(out_of_memory_ends_the_pass),
		LINES(many_passes_take_linear_time),
		LINES(a_noted_node_names_its_blocks),
		LINES(a_node_may_be_between_two_lines),
		LINES(a_node_without_a_place_leaves_it_to_the_order),
		cmocka_unit_test(names_do_not_depend_on_those_that_nobody_asks_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
