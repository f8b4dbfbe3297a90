/* The search over every dimension, with a system that leaves none out: what is found is what a walk
 * over all numbers finds, and the order is the one that is promised. */
#include "plan/plan.h"
#include "estimate/inputs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LAYERS 24
#define HEADS 12
#define EXPERTS 6
#define TOKENS 96
#define BATCH 48
#define GPUS 48

#define SYMBOLS(X) X(n, "bytes")
#define TERMS(TERM) TERM(all, "other", "all", "n", "this test", n)
#include "estimate/formula.h"
#include "readers/native.h"

/* A different number for each layout, so that no two are confused. */
static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	int recompute = !GIVEN(c, recompute_granularity)                 ? 0
			: !strcmp(c->recompute_granularity, "selective") ? 1
									 : 2;

	(void)e;
	SYMBOL(&out->dims, n) = ((((((((wide)c->tensor_model_parallel_size * 100 +
				       c->pipeline_model_parallel_size) *
					      100 +
				      c->context_parallel_size) *
					     100 +
				     c->data_parallel_size) *
					    100 +
				    VALUE_OR(c, virtual_pipeline_model_parallel_size, 1)) *
					   100 +
				   VALUE_OR(c, expert_model_parallel_size, 1)) *
					  100 +
				  c->micro_batch_size) *
					 4 +
				 recompute) *
					4 +
				c->zero_stage;
	return 0;
}

static void add_results(const struct config *c, struct estimate *out)
{
	(void)c, (void)out;
}

static const struct system everything = {
	.name = "everything",
	.space = SPACE_EVERYTHING,
	.terms = terms,
	.term_count = ARRAY_SIZE(terms),
	.symbols = symbols,
	.symbol_count = ARRAY_SIZE(symbols),
	.read = read_config,
	.add_results = add_results,
};

static void give(struct config *c)
{
	static const char *const pairs[][2] = {
		{ "num_layers", "24" },          { "hidden_size", "96" },
		{ "num_attention_heads", "12" }, { "num_experts", "6" },
		{ "seq_length", "96" },          { "global_batch_size", "48" },
		{ "ffn_hidden_size", "384" },    { "vocab_size", "1000" },
		{ "zero_stage", "3" },
	};
	struct err e = { "" };

	config_init(c);
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (config_set(c, pairs[i][0], pairs[i][1], "test", &e))
			fail_msg("%s", e.text);
}

/* What remains of a stage: chunks, experts, micro-batches; times 3 recomputations and 4 stages. */
static int64_t count_inside(int64_t t, int64_t p, int64_t c, int64_t d)
{
	int64_t found = 0;

	for (int64_t v = 1; v <= LAYERS / p; v++)
		for (int64_t ep = 1; ep <= EXPERTS; ep++)
			for (int64_t b = 1; b <= BATCH / d; b++) {
				int64_t m = BATCH / d / b;

				if (LAYERS / p % v || EXPERTS % ep || BATCH / d % b)
					continue;
				if (p == 1 && v > 1)
					continue;
				if (v > 1 && m % p)
					continue;
				if (ep > 1 && t * c * d % (ep * t))
					continue;
				found += 12;
			}
	return found;
}

static int64_t count_all(void)
{
	int64_t found = 0;

	for (int64_t t = 1; t <= 8; t++)
		for (int64_t p = 1; p <= LAYERS; p++)
			for (int64_t c = 1; c <= GPUS; c++) {
				if (GPUS % (t * p * c) || HEADS % t || LAYERS % p)
					continue;
				if (c > 1 && (TOKENS % (2 * c) || TOKENS / c % t))
					continue;
				if (BATCH % (GPUS / (t * p * c)) == 0)
					found += count_inside(t, p, c, GPUS / (t * p * c));
			}
	return found;
}

/* A plan of every layout: none needs more than the memory. */
static void plan_everything(struct plan *p, struct config *c)
{
	give(c);
	plan_init(p, c);
	p->system = &everything;
	p->gpus = GPUS;
	p->memory = (wide)1 << 90;
}

static void every_layout_once_and_ranked(void **state)
{
	struct config c;
	struct plan p;
	struct err e = { "" };

	(void)state;
	plan_everything(&p, &c);
	if (plan_make(&p, &e))
		fail_msg("%s", e.text);
	assert_int_equal(p.fitting.count, count_all());
	for (size_t i = 1; i < p.fitting.count; i++) {
		const struct plan_layout *x = &p.fitting.at[i - 1], *y = &p.fitting.at[i];
		int64_t before = x->size[DIM_TP] * x->size[DIM_PP] * x->size[DIM_CP];
		int64_t after = y->size[DIM_TP] * y->size[DIM_PP] * y->size[DIM_CP];

		assert_true(before <= after);
		if (before == after)
			assert_true(x->size[DIM_MBS] >= y->size[DIM_MBS]);
		if (before == after && x->size[DIM_MBS] == y->size[DIM_MBS])
			assert_true(x->bubble <= y->bubble);
		assert_true(x->total != y->total);
	}
	plan_release(&p);
	config_release(&c);
}

static void paste(const struct plan *p, enum plan_launcher flags, const char *expected)
{
	struct buf out = { 0 };

	plan_flags(p, &p->fitting.at[0], flags, &out);
	assert_string_equal(out.text, expected);
	buf_release(&out);
}

static void one_layout_in_every_launchers_flags(void **state)
{
	static const char *const fixed[] = { "tp=2", "pp=4",  "cp=2",           "vpp=3",
					     "ep=3", "mbs=2", "recompute=full", "zero_stage=1" };
	struct config c;
	struct plan p;
	struct err e = { "" };

	(void)state;
	plan_everything(&p, &c);
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (plan_fix(&p, fixed[i], &e))
			fail_msg("%s", e.text);
	if (plan_make(&p, &e))
		fail_msg("%s", e.text);
	assert_int_equal(p.fitting.count, 1);
	/* 3 data-parallel ranks with 8 micro-batches of 2; 4 stages of 6 layers in 3 chunks of 2.
	 */
	assert_true(p.fitting.at[0].bubble * 24 > 2.999 && p.fitting.at[0].bubble * 24 < 3.001);
	paste(&p, LAUNCHER_MEGATRON,
	      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --context-parallel-size 2 "
	      "--num-layers-per-virtual-pipeline-stage 2 --expert-model-parallel-size 3 "
	      "--micro-batch-size 2 --global-batch-size 48 --use-distributed-optimizer "
	      "--sequence-parallel --recompute-granularity full --recompute-method uniform "
	      "--recompute-num-layers 1");
	paste(&p, LAUNCHER_TORCHTITAN,
	      "--parallelism.tensor_parallel_degree=2 --parallelism.pipeline_parallel_degree=4 "
	      "--parallelism.context_parallel_degree=2 --parallelism.data_parallel_shard_degree=3 "
	      "--parallelism.fsdp_reshard_after_forward=never --parallelism.expert_parallel_degree=3 "
	      "--training.local_batch_size=16 --training.global_batch_size=48 "
	      "--parallelism.pipeline_parallel_microbatch_size=2 "
	      "--parallelism.pipeline_parallel_schedule=Interleaved1F1B "
	      "--parallelism.pipeline_parallel_layers_per_stage=2 --activation_checkpoint.mode=full");
	paste(&p, LAUNCHER_ACCELERATE,
	      "none: accelerate's Megatron-LM plugin has no interleaved stages");
	paste(&p, LAUNCHER_DEEPSPEED,
	      "none: a ds_config.json has no tensor, pipeline, context or expert parallelism");
	plan_release(&p);
	config_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_layout_once_and_ranked),
		cmocka_unit_test(one_layout_in_every_launchers_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
