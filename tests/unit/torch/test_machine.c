/* Tests of the machine and its operations against sequences that were worked out by hand, and of
 * the allocator's rules against PyTorch's source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "megatron/schedule.h"
#include "systems/memtrace.h"
#include "torch/autocast.h"
#include "torch/checkpoint.h"
#include "torch/ops.h"
#include "torch/streams.h"
#include "on_machine.h"
#include "readers/native.h"

#define KIB INT64_C(1024)

/* ---- the caching allocator, after CUDACachingAllocator.cpp ---- */

static void test_rounding(void **state)
{
	(void)state;
	/* 1 byte is a block of 512 bytes in a segment of 2 MiB; 1 MiB + 1 is a block of 1 MiB + 512
	 * in a segment of 20 MiB */
	tensor a = tensor_new(&m, 1, U8), b = tensor_new(&m, MIB + 1, U8);

	assert_int_equal(allocated(), 512 + MIB + 512);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 22 * MIB);
	tensor_unref(&m, &a);
	tensor_unref(&m, &b);
	assert_int_equal(allocated(), 0);
	allocator_empty_cache(m.allocator);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 0);
}

/* Blocks that lie alike, made in the same order, are the same layout in any round; another order,
 * or a block of an earlier round in the place of one of this, is another. */
static void test_layouts_of_rounds(void **state)
{
	uint64_t layouts[4];
	tensor kept = { .storage = NULL };

	(void)state;
	for (int i = 0; i < 4; i++) {
		int64_t first = i == 2 ? 3 * MIB : 2 * MIB;
		tensor a, b;

		allocator_begin_round(m.allocator);
		a = tensor_new(&m, first, U8);
		b = tensor_new(&m, 5 * MIB - first, U8);
		layouts[i] = allocator_layout(m.allocator, 2);
		if (i == 2)
			kept = tensor_ref(b);
		tensor_unref(&m, &a);
		tensor_unref(&m, &b);
	}
	tensor_unref(&m, &kept);
	assert_int_equal(layouts[0], layouts[1]);
	assert_int_not_equal(layouts[0], layouts[2]);
	assert_int_not_equal(layouts[0], layouts[3]); /* `kept` lies beside */
}

/* Of two kinds of rounds in turn, the third is like the first: of the 97 after it 48 pairs repeat.
 */
static void test_rounds_left(void **state)
{
	struct batch_rounds rounds = { .window = 1 };
	int64_t left = 100;

	(void)state;
	for (int i = 0; i < 3; i++) {
		tensor a;

		schedule_begin_round(&m);
		a = tensor_new(&m, (2 + i % 2) * MIB, U8);
		left = schedule_rounds_left(&rounds, &m, left - 1);
		tensor_unref(&m, &a);
	}
	assert_int_equal(left, 97 - 48 * 2);
	schedule_rounds_release(&rounds);
}

static void test_tail_is_not_split(void **state)
{
	(void)state;
	/* 11 MiB + 512 needs a segment of 12 MiB; the rest is less than 1 MiB and stays in the
	 * block */
	tensor a = tensor_new(&m, 11 * MIB + 512, U8);

	assert_int_equal(allocated(), 12 * MIB);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 12 * MIB);
	tensor_unref(&m, &a);
	/* the block is the best fit for 10 MiB; its rest of 2 MiB is split off */
	a = tensor_new(&m, 10 * MIB, U8);
	assert_int_equal(allocated(), 10 * MIB);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 12 * MIB);
	tensor_unref(&m, &a);
}

static void test_streams_do_not_share(void **state)
{
	(void)state;
	tensor a = tensor_new(&m, 30 * MIB, U8);

	tensor_unref(&m, &a);
	m.stream = 1;
	a = tensor_new(&m, 30 * MIB, U8);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 60 * MIB);
	tensor_unref(&m, &a);
}

/* ---- the graph ---- */

/* y = W2 gelu(W1 x), x of 1 Mi elements, W of 4 Ki x 1 Ki in fp32: the live bytes at each point. */
static void test_linear_and_gelu(void **state)
{
	struct param first, second;
	tensor x, h, y, one;

	(void)state;
	param_make(&m, &first, 4096, 1024, F32, TERM_MLP_WEIGHTS);
	param_make(&m, &second, 1024, 4096, F32, TERM_MLP_WEIGHTS);
	assert_int_equal(allocated(), 32 * MIB);
	x = tensor_new_as(&m, TERM_INPUTS, MIB, F32); /* 1024 rows: 4 MiB */
	h = linear(&m, x, &first, NULL);              /* 16 MiB */
	tensor_assign(&m, &h, gelu(&m, h));           /* saves its input: 16 MiB more */
	y = linear(&m, h, &second, NULL);             /* saves its input; 4 MiB */
	tensor_unref(&m, &h);
	assert_int_equal(allocated(), (32 + 4 + 16 + 16 + 4) * MIB);
	one = tensor_new(&m, MIB, F32);
	backward(&m, &tape, y, one);
	/* the incoming gradient has 4 MiB; the gradients of the second weight (16) and of its input
	 * (16) are allocated, then the saved input is freed; gelu allocates 16, while 16 come in
	 * and its input is saved */
	assert_int_equal(m.peak.allocated, (72 + 4 + 16 + 16) * MIB);
	assert_int_equal(m.peak.phase, INIT);
	assert_int_equal(allocated(), (32 + 4 + 4 + 32) * MIB);
	machine_settle(&m);
	assert_int_equal(m.by_term[TERM_GRADIENTS], 32 * MIB);
	for (int i = 0; i < 2; i++)
		tensor_unref(&m, i ? &first.grad : &second.grad);
}

/* autocast: the 16-bit copy of a weight is made once, and is live until autocast ends and the graph
 * has used it. */
static void test_autocast_cache(void **state)
{
	struct param w;
	tensor x, y, z;

	(void)state;
	param_make(&m, &w, 1024, 1024, F32, TERM_MLP_WEIGHTS); /* 4 MiB */
	x = tensor_new(&m, 2 * MIB, F32);                      /* 8 MiB */
	begin_autocast(&m, BF16);
	y = linear(&m, x, &w, NULL); /* copies of w (2) and x (4), y (4) */
	assert_int_equal(allocated(), (4 + 8 + 2 + 4 + 4) * MIB);
	z = linear(&m, y, &w, NULL); /* y is already bf16: only z (4) */
	assert_int_equal(allocated(), (4 + 8 + 2 + 4 + 4 + 4) * MIB);
	machine_settle(&m);
	assert_int_equal(m.by_term[TERM_AUTOCAST_CACHE], 2 * MIB);
	end_autocast(&m);
	assert_int_equal(m.by_term[TERM_AUTOCAST_CACHE], 2 * MIB);
	tape_free(&m, &tape);
	assert_int_equal(m.by_term[TERM_AUTOCAST_CACHE], 0);
	tensor_unref(&m, &y);
	tensor_unref(&m, &z);
}

static tensor two_gelus(struct machine *machine, void *context, tensor in)
{
	tensor h = gelu(machine, in), out = gelu(machine, h);

	(void)context;
	tensor_unref(machine, &h);
	return out;
}

/* A checkpoint keeps only its input. The backward pass computes the rest again, and stops before
 * the last result. */
static void test_checkpoint(void **state)
{
	struct param leaf;
	tensor y;

	(void)state;
	param_make(&m, &leaf, 1024, 1024, F32, TERM_INPUTS); /* 4 MiB, needs a gradient */
	y = checkpointed(&m, two_gelus, NULL, leaf.value);
	assert_int_equal(allocated(), 8 * MIB);
	backward(&m, &tape, y, tensor_new(&m, MIB, F32));
	/* the incoming gradient has 4 MiB; the output of the first gelu is computed again (4), that
	 * of the second is not; the gradient of the second (4) */
	assert_int_equal(m.peak.allocated, (8 + 4 + 4 + 4) * MIB);
	tensor_unref(&m, &y);
	assert_int_equal(allocated(), 8 * MIB);
	tensor_unref(&m, &leaf.grad);
}

/* cross_entropy of bf16 logits under autocast: log-softmax in bf16 and its copy in fp32; the
 * backward pass needs one more in fp32. */
static void test_cross_entropy(void **state)
{
	struct param logits;
	tensor targets, loss;
	int64_t before;

	(void)state;
	param_make(&m, &logits, 1024, 32 * KIB, BF16, TERM_LOGITS); /* N = 32 Mi: 64 MiB */
	targets = tensor_new(&m, 1024, I64);
	before = allocated();
	begin_autocast(&m, BF16);
	loss = cross_entropy(&m, logits.value, targets);
	end_autocast(&m);
	assert_int_equal(allocated() - before, (64 + 128) * MIB + 2 * 512);
	backward(&m, &tape, loss, tensor_new(&m, 1, F32));
	assert_int_equal(m.peak.allocated - before, (64 + 128 + 128) * MIB + 3 * 512);
	tensor_unref(&m, &logits.grad);
}

/* Sizes with products that overflow are an error. */
static void test_enormous(void **state)
{
	static const struct {
		const char *name, *value;
	} rows[] = { { "framework", "nanogpt" },       { "num_layers", "2" },
		     { "hidden_size", "64" },          { "num_attention_heads", "4" },
		     { "vocab_size", "100" },          { "seq_length", "100000000" },
		     { "micro_batch_size", "1000000" } };
	struct config c;
	struct estimate made;
	struct err e = { "" };

	(void)state;
	config_init(&c);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(config_set(&c, rows[i].name, rows[i].value, "test", &e), 0);
	assert_int_equal(estimate_make(&made, &memtrace, &c, 1, &e), -1);
	assert_non_null(strstr(e.text, "2^48"));
	estimate_release(&made);
	config_release(&c);
}

/* ---- streams: a block that another stream used returns when that stream's work is known to be
 * complete ---- */

static tensor lend_to(int stream)
{
	tensor t = tensor_new(&m, 12 * MIB, U8), other;

	stream_work(&m, stream, 1);
	record_stream(t, stream);
	tensor_unref(&m, &t);
	assert_int_equal(allocated(), 0);
	other = tensor_new(&m, 12 * MIB, U8);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 24 * MIB);
	return other;
}

static void assert_back(int is)
{
	tensor t = tensor_new(&m, 12 * MIB, U8);

	assert_int_equal(allocator_totals(m.allocator)->reserved, (is ? 24 : 36) * MIB);
	tensor_unref(&m, &t);
}

static void test_used_by_another_stream(void **state)
{
	tensor t;

	(void)state;
	t = lend_to(1);
	host_wait(&m, 0); /* stream 1 may still work */
	assert_back(0);
	tensor_unref(&m, &t);
}

static void test_host_waits(void **state)
{
	tensor t;

	(void)state;
	t = lend_to(1);
	host_wait(&m, 1);
	assert_back(1);
	tensor_unref(&m, &t);
}

static void test_host_waits_for_what_waits(void **state)
{
	tensor t;

	(void)state;
	t = lend_to(1);
	stream_wait(&m, 0, 1);
	host_wait(&m, 0);
	assert_back(1);
	tensor_unref(&m, &t);
}

/* cudaLaunchKernel waits if 1024 pieces of work are queued; the model of the device then
 * completes 64. */
static void test_full_queue(void **state)
{
	tensor t;

	(void)state;
	t = lend_to(1); /* 2 pieces of work: the use, and the event */
	stream_work(&m, 1, 1024 + 64 - 1);
	assert_back(1);
	tensor_unref(&m, &t);
}

static void test_queue_not_full(void **state)
{
	tensor t;

	(void)state;
	t = lend_to(1);
	stream_work(&m, 1, 1024 + 64 - 2);
	assert_back(0);
	tensor_unref(&m, &t);
}

static void test_used_by_its_own_stream(void **state)
{
	tensor t;

	(void)state;
	t = tensor_new(&m, 12 * MIB, U8);
	record_stream(t, 0);
	tensor_unref(&m, &t);
	t = tensor_new(&m, 12 * MIB, U8);
	assert_int_equal(allocator_totals(m.allocator)->reserved, 12 * MIB);
	tensor_unref(&m, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_MACHINE(test_rounding),
		ON_MACHINE(test_tail_is_not_split),
		ON_MACHINE(test_layouts_of_rounds),
		ON_MACHINE(test_rounds_left),
		ON_MACHINE(test_streams_do_not_share),
		ON_MACHINE(test_linear_and_gelu),
		ON_MACHINE(test_autocast_cache),
		ON_MACHINE(test_checkpoint),
		ON_MACHINE(test_cross_entropy),
		ON_MACHINE(test_used_by_another_stream),
		ON_MACHINE(test_host_waits),
		ON_MACHINE(test_host_waits_for_what_waits),
		ON_MACHINE(test_full_queue),
		ON_MACHINE(test_queue_not_full),
		ON_MACHINE(test_used_by_its_own_stream),
		cmocka_unit_test(test_enormous),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
