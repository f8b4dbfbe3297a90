/* The bound that spares estimates is below every estimate, and siblings are in the order that the
 * search relies on. */
#include "plan/plan_bound.h"

#include "readers/native.h"
#include "systems/memtrace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const char *const dense[][2] = {
	{ "num_layers", "8" },
	{ "hidden_size", "1024" },
	{ "ffn_hidden_size", "3584" },
	{ "num_attention_heads", "16" },
	{ "num_query_groups", "8" },
	{ "vocab_size", "32000" },
	{ "seq_length", "2048" },
	{ "global_batch_size", "32" },
	{ "swiglu", "true" },
	{ "normalization", "RMSNorm" },
	{ "add_bias_linear", "false" },
	{ "framework", "megatron-core" },
	{ "precision", "bf16-mixed" },
	{ "gpu", "H100-80GB" },
	{ "position_embedding_type", "rope" },
};
static const char *const gpt[][2] = { { "swiglu", "false" },
				      { "normalization", "LayerNorm" },
				      { "add_bias_linear", "true" } };
static const char *const experts[][2] = { { "num_experts", "8" },
					  { "moe_router_topk", "2" },
					  { "moe_ffn_hidden_size", "1024" },
					  { "moe_token_dispatcher_type", "alltoall" } };
static const char *const latent[][2] = {
	{ "multi_latent_attention", "true" },
	{ "q_lora_rank", "384" },
	{ "kv_lora_rank", "128" },
	{ "moe_shared_expert_intermediate_size", "1024" },
	{ "qk_head_dim", "64" },
	{ "qk_pos_emb_head_dim", "32" },
	{ "v_head_dim", "64" },
};
/* What a reader of model files sets. */
static const char *const off[][2] = { { "multi_latent_attention", "false" },
				      { "fp8_param_gather", "false" },
				      { "cpu_offloading", "false" } };
static const char *const engine[][2] = { { "transformer_impl", "transformer_engine" } };

static void give(struct config *c, const char *const pairs[][2], size_t count)
{
	struct err e = { "" };

	for (size_t i = 0; i < count; i++)
		if (config_set(c, pairs[i][0], pairs[i][1], "test", &e) < 0)
			fail_msg("%s", e.text);
}

static void set_layout(struct config *c, struct plan_layout *l)
{
	struct err e = { "" };

	for (size_t i = 0; i < DIMENSIONS; i++)
		if (i == DIM_RECOMPUTE)
			config_set(c, "recompute_granularity", recompute_names[l->size[i]], "test",
				   &e);
		else if ((i == DIM_VPP || i == DIM_EP) && l->size[i] == 1)
			config_unset(c, dimensions[i].key);
		else
			config_set_int(c, dimensions[i].key, l->size[i], "test", &e);
	config_set_int(c, CONFIG_num_microbatches, l->micro_batches, "test", &e);
	c->sequence_parallel = l->size[DIM_TP] > 1;
}

/* The estimate of a layout; 0: it is refused. */
static wide held_against_bound(struct plan_search *s, struct plan_layout *l)
{
	struct estimate made;
	struct err e = { "" };
	wide most = 0;
	double bound;

	l->micro_batches = 32 / l->size[DIM_DP] / l->size[DIM_MBS];
	set_layout(&s->scratch, l);
	bound = plan_least_bytes(s, l);
	assert_true(bound > 0);
	if (estimate_make(&made, &memtrace, &s->scratch, DETAIL_TERMS, &e) >= 0) {
		most = estimate_most(&made);
		if (bound > (double)most)
			fail_msg("tp %d pp %d vpp %d ep %d mbs %d %s: bound %.0f, estimate %.0f",
				 (int)l->size[DIM_TP], (int)l->size[DIM_PP], (int)l->size[DIM_VPP],
				 (int)l->size[DIM_EP], (int)l->size[DIM_MBS],
				 recompute_names[l->size[DIM_RECOMPUTE]], bound, (double)most);
	}
	estimate_release(&made);
	return most;
}

static void hold_space(struct plan_search *s, int64_t ep)
{
	struct plan_layout l = { .size = { [DIM_CP] = 1, [DIM_DP] = 4, [DIM_EP] = ep } };
	wide plain, small;

	for (int64_t tp = 1; tp <= 4; tp *= 4)
		for (int64_t pp = 1; pp <= 4; pp *= 2)
			for (int how = RECOMPUTE_NONE; how < RECOMPUTES; how++)
				for (int zero = 0; zero <= 1; zero++) {
					l.size[DIM_TP] = tp, l.size[DIM_PP] = pp,
					l.size[DIM_ZERO] = zero;
					l.size[DIM_RECOMPUTE] = how;
					l.size[DIM_MBS] = l.size[DIM_VPP] = 1;
					plain = held_against_bound(s, &l);
					assert_true(plain > 0);
					l.size[DIM_VPP] = pp > 1 ? 2 : 1;
					small = held_against_bound(s, &l);
					assert_true(small >= plain);
					l.size[DIM_MBS] = 2;
					assert_true(held_against_bound(s, &l) >= small);
				}
}

static void hold(const char *const more[][2], size_t count, int64_t ep)
{
	struct plan plan = { .system = &memtrace };
	struct plan_search s = { .plan = &plan, .is_timed = 1 };

	config_init(&s.scratch);
	give(&s.scratch, dense, ARRAY_SIZE(dense));
	give(&s.scratch, more, count);
	assert_true(step_job_read(&s.job, &s.scratch));
	hold_space(&s, ep);
	config_release(&s.scratch);
}

static void dense_models(void **state)
{
	(void)state;
	hold(NULL, 0, 1);
	hold(gpt, ARRAY_SIZE(gpt), 1);
	hold(engine, ARRAY_SIZE(engine), 1);
	hold(off, ARRAY_SIZE(off), 1);
}

static void mixtures_of_experts(void **state)
{
	(void)state;
	hold(experts, ARRAY_SIZE(experts), 1);
	hold(experts, ARRAY_SIZE(experts), 4);
}

static void give_latent(struct plan_search *s, struct plan_layout *l)
{
	config_init(&s->scratch);
	give(&s->scratch, dense, ARRAY_SIZE(dense));
	give(&s->scratch, experts, ARRAY_SIZE(experts));
	give(&s->scratch, latent, ARRAY_SIZE(latent));
	set_layout(&s->scratch, l);
}

static void make(struct estimate *made, struct plan_search *s, int64_t memory, int detail)
{
	struct err e = { "" };

	config_set_int(&s->scratch, CONFIG_device_memory_bytes, memory, "test", &e);
	if (estimate_make(made, &memtrace, &s->scratch, detail, &e) < 0)
		fail_msg("%s", e.text);
}

/* States that do not fit are found before the first step, and are a bound for layouts with the same
 * states: latent attention has no formula. */
static void states_that_do_not_fit(void **state)
{
	struct plan plan = { .system = &memtrace };
	struct plan_search s = { .plan = &plan, .is_timed = 1 };
	struct plan_layout l = { .size = { 1, 1, 1, 4, 1, 1, 1, RECOMPUTE_FULL, 1 },
				 .micro_batches = 8 };
	struct estimate states, whole;

	(void)state;
	give_latent(&s, &l);
	assert_true(plan_least_bytes(&s, &l) == 0);
	make(&states, &s, 1 << 28, DETAIL_ENDS);
	make(&whole, &s, 1 << 28, DETAIL_TERMS);
	assert_true(states.only_states && !whole.only_states);
	assert_true(states.total > 1 << 28 && states.total < whole.total);
	plan_keep_states(&s, &l, states.total);
	l.size[DIM_MBS] = 2;
	l.size[DIM_RECOMPUTE] = RECOMPUTE_NONE;
	l.size[DIM_CP] = l.size[DIM_DP] = 2;
	assert_true(plan_least_bytes(&s, &l) == (double)states.total);
	l.size[DIM_ZERO] = 0;
	assert_true(plan_least_bytes(&s, &l) == 0);
	estimate_release(&states);
	estimate_release(&whole);
	free(s.states);
	config_release(&s.scratch);
}

/* A step that runs out of memory anywhere ends without a gradient. */
static void memory_that_runs_out(void **state)
{
	struct plan_search s = { .is_timed = 1 };
	struct plan_layout l = { .size = { 4, 1, 1, 8, 1, 4, 1, RECOMPUTE_FULL, 1 },
				 .micro_batches = 1 };
	struct estimate made;
	int lost = 0;

	(void)state;
	for (int how = RECOMPUTE_NONE; how < RECOMPUTES; how++) {
		int64_t total, reserved;

		l.size[DIM_RECOMPUTE] = how;
		give_latent(&s, &l);
		make(&made, &s, (int64_t)1 << 40, DETAIL_STAGES);
		total = (int64_t)made.stages[0].device - (int64_t)made.stages[0].reserved +
			(int64_t)made.stages[0].total;
		reserved = (int64_t)made.stages[0].device;
		estimate_release(&made);
		for (int part = 0; part < 16; part++) {
			make(&made, &s, total + (reserved - total) * part / 16, DETAIL_STAGES);
			lost += made.stages[0].in_device == FIT_OUT_OF_MEMORY;
			estimate_release(&made);
		}
		config_release(&s.scratch);
	}
	assert_true(lost > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dense_models),
		cmocka_unit_test(mixtures_of_experts),
		cmocka_unit_test(states_that_do_not_fit),
		cmocka_unit_test(memory_that_runs_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
