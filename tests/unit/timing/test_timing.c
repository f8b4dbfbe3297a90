/* Times of kernels and steps, against calculations by hand from the data sheets' numbers. */
#include "timing/kernels.h"
#include "timing/step.h"

#include "readers/native.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void give(struct config *c, const char *const pairs[][2], size_t count)
{
	struct err e = { "" };

	for (size_t i = 0; i < count; i++)
		if (config_set(c, pairs[i][0], pairs[i][1], "test", &e) < 0)
			fail_msg("%s", e.text);
}

static void give_job(struct config *c)
{
	static const char *const pairs[][2] = {
		{ "num_layers", "32" },          { "hidden_size", "4096" },
		{ "num_attention_heads", "32" }, { "num_query_groups", "8" },
		{ "ffn_hidden_size", "14336" },  { "vocab_size", "128256" },
		{ "seq_length", "8192" },        { "global_batch_size", "1024" },
		{ "gpu", "H100-80GB" },          { "swiglu", "true" },
	};

	config_init(c);
	give(c, pairs, ARRAY_SIZE(pairs));
}

static struct step_time time_of(const struct config *c, struct step_layout l)
{
	struct step_job job;

	assert_true(step_job_read(&job, c));
	return step_time(&job, &l);
}

/* 16 GPUs: tensor 2, data 8, 128 micro-batches of one sequence. */
static struct step_layout layout(void)
{
	struct step_layout l = { .micro_batches = 128, .sequence_parallel = 1 };

	for (size_t i = 0; i < DIMENSIONS; i++)
		l.size[i] = 1;
	l.size[DIM_TP] = 2;
	l.size[DIM_DP] = 8;
	l.size[DIM_RECOMPUTE] = RECOMPUTE_NONE;
	return l;
}

static void products_come_in_waves(void **state)
{
	struct gpu_speed g = { .processors = 100, .memory = 1e15 };
	struct product p = { 1280, 2560, 1000, 1, 1e15, 2, 2 };
	double one, two;

	(void)state;
	/* 10 x 10 tiles of 128 x 256 on 100 processors: 2 m n k operations at 10^15 a second. */
	one = product_time(&g, &p) - 4e-6;
	assert_true(one > 6.5536e-6 && one < 6.57e-6);
	/* One row more is one tile's row more: a second wave. */
	p.m += 1;
	two = product_time(&g, &p) - 4e-6;
	assert_true(two > 1.99 * one && two < 2.01 * one);
}

static void collectives_take_their_bytes(void **state)
{
	struct gpu_speed g = { .peers = 100e9, .network = 10e9, .node = 8 };
	double inside = gather_time(&g, 8e9, (struct group){ 8, 1 });
	double across = gather_time(&g, 16e9, (struct group){ 16, 1 });
	double lonely = gather_time(&g, 16e9, (struct group){ 16, 8 });

	(void)state;
	/* 7/8 of 8 GB at 100 GB/s; 15/16 of 16 GB through 8 ports of 10 GB/s, or through one. */
	assert_true(inside > 0.0700 && inside < 0.0702);
	assert_true(across > 0.1875 && across < 0.1878);
	assert_true(lonely > 1.5 && lonely < 1.501);
	assert_true(gather_time(&g, 8e9, (struct group){ 1, 1 }) <= 0);
	/* Four GPUs without a switch: one peer has a third of a GPU's links. */
	g.node = 4;
	assert_true(gather_time(&g, 2e9, (struct group){ 2, 1 }) > 0.03);
}

static void parts_add_up(void **state)
{
	struct config c;
	struct step_time t;
	double sum = 0;

	(void)state;
	give_job(&c);
	t = time_of(&c, layout());
#define X(member, key) sum += t.member;
	STEP_PARTS(X)
#undef X
	assert_true(sum > t.seconds * 0.999999 && sum < t.seconds * 1.000001);
	/* 1024 x 8192 tokens on 16 GPUs. */
	assert_true(t.tokens > 524288 / t.seconds * 0.999 && t.tokens < 524288 / t.seconds * 1.001);
	/* Megatron-LM's count: 12 B s L h^2 (1 + 8/32 + s/h + 1.5 f/h + v/(2 L h)) = 4.86 * 10^17.
	 */
	sum = 4.8605e17 / 16 / 989e12 / t.seconds;
	assert_true(t.mfu > sum * 0.99 && t.mfu < sum * 1.01);
	config_release(&c);
}

static void each_choice_has_its_price(void **state)
{
	struct step_layout l = layout(), other;
	struct config c;
	double plain;

	(void)state;
	give_job(&c);
	plain = time_of(&c, l).seconds;
	other = l;
	other.size[DIM_RECOMPUTE] = RECOMPUTE_FULL;
	/* A forward pass is a third of a step, with its communication a little more. */
	assert_true(time_of(&c, other).seconds > 1.25 * plain);
	assert_true(time_of(&c, other).seconds < 1.45 * plain);
	/* Two stages, one micro-batch: each waits for the other. */
	other = l;
	other.size[DIM_PP] = 2;
	other.size[DIM_DP] = 4;
	other.size[DIM_MBS] = 256;
	other.micro_batches = 1;
	assert_true(time_of(&c, other).seconds > 1.7 * plain);
	other.size[DIM_VPP] = 16;
	assert_true(time_of(&c, other).seconds < 1.3 * plain);
	/* Tensor parallelism beyond a node goes over the network. */
	other = l;
	other.size[DIM_TP] = 16;
	other.size[DIM_DP] = 1;
	other.micro_batches = 1024;
	assert_true(time_of(&c, other).seconds > 1.5 * plain);
	config_release(&c);
}

static void near(double value, double expected)
{
	if (value < expected * 0.9999 - 1e-12 || value > expected * 1.0001 + 1e-12)
		fail_msg("%.9g, expected %.9g", value, expected);
}

/* 64 ranks, tensor size 8 and one for experts; 64 experts of the given width. */
static struct step_time time_of_experts(const char *width, double ep)
{
	const char *const pairs[][2] = {
		{ "framework", "megatron-core" }, { "num_experts", "64" },
		{ "moe_router_topk", "2" },       { "expert_tensor_parallel_size", "1" },
		{ "moe_ffn_hidden_size", width },
	};
	struct step_layout l = layout();
	struct step_time t;
	struct config c;

	give_job(&c);
	give(&c, pairs, ARRAY_SIZE(pairs));
	l.size[DIM_TP] = 8;
	l.size[DIM_EP] = ep;
	t = time_of(&c, l);
	config_release(&c);
	return t;
}

/* Ranks of experts are in Megatron-core's order tensor, expert, data: with tensor size 1, the 64
 * ranks of a stage are ep ranks in a row with other experts, 64 / ep times. 1024 columns more are
 * 32 x 64 x 3 x 4096 x 1024 = 25,769,803,776 weights more. */
static void experts_have_groups_of_their_own(void **state)
{
	static const struct {
		double ep, exchanged;
	} rows[] = {
		/* 6 bytes of a weight, its gradient and itself. 32 ranks, 4 of them on a node with
		 * 42.5 GB/s each; 8 with one; 4 with one; 1. */
		{ 2, 25769803776.0 / 2 * 6 * 31 / 32 / 170e9 },
		{ 8, 25769803776.0 / 8 * 6 * 7 / 8 / 42.5e9 },
		{ 16, 25769803776.0 / 16 * 6 * 3 / 4 / 42.5e9 },
		{ 64, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct step_time a = time_of_experts("1024", rows[i].ep);
		struct step_time b = time_of_experts("2048", rows[i].ep);

		/* 30 bytes of each of a rank's weights; 0.85 of 3350 GB/s. */
		near(b.optimizer - a.optimizer, 25769803776.0 / 64 * 30 / 2847.5e9);
		near(b.data - a.data, rows[i].exchanged);
	}
	/* 8 ranks are a node. 8192 tokens go to two experts each, from 8 ranks: 16 MiB, of which
	 * 7/8 leave, at 337.5 GB/s; four times in each of 32 layers and 128 micro-batches. */
	near(time_of_experts("1024", 8).experts,
	     (16777216.0 * 7 / 8 / 337.5e9 + 40e-6) * 4 * 32 * 128);
}

static void unknown_stays_unknown(void **state)
{
	static const char *const other[][2] = { { "device_memory_bytes", "80000000000" } };
	struct step_job job;
	struct config c;

	(void)state;
	give_job(&c);
	config_unset(&c, CONFIG_gpu);
	give(&c, other, 1);
	assert_false(step_job_read(&job, &c));
	config_release(&c);
	give_job(&c);
	config_unset(&c, CONFIG_vocab_size);
	assert_false(step_job_read(&job, &c));
	config_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_come_in_waves),
		cmocka_unit_test(collectives_take_their_bytes),
		cmocka_unit_test(parts_add_up),
		cmocka_unit_test(each_choice_has_its_price),
		cmocka_unit_test(experts_have_groups_of_their_own),
		cmocka_unit_test(unknown_stays_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
