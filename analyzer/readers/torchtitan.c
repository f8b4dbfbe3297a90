/* The --section.option flags of the versions with TOML files (local_batch_size, seq_len) and of
 * those of 2026 (tokens, max_context_length). */
#include "readers/torchtitan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct torchtitan_state {
	int64_t tokens;        /* of a micro-batch */
	int64_t pp_microbatch; /* sequences */
	int64_t shard;         /* data_parallel_shard_degree; -1: all remaining ranks */
	int autocast;          /* bf16 computation over fp32 weights */
	char module[64], flavor[200], flavor_origin[300];
};

static int take_count(struct reader *r, const char *value, int64_t *to)
{
	char *end;

	*to = strtoll(value, &end, 10);
	if (end == value || *end || *to < -1 || *to == 0 || *to > INT64_C(1000000000000))
		return err_set(r->e,
			       "%s: %s is \"%.60s\", but must be a whole number from 1 on, or -1",
			       r->origin, r->key, value);
	return 0;
}

static int take_tokens(struct reader *r, int field, const char *value)
{
	(void)field;
	return take_count(r, value, &((struct torchtitan_state *)r->state)->tokens);
}

static int take_pp_microbatch(struct reader *r, int field, const char *value)
{
	(void)field;
	return take_count(r, value, &((struct torchtitan_state *)r->state)->pp_microbatch);
}

static int take_shard(struct reader *r, int field, const char *value)
{
	(void)field;
	return take_count(r, value, &((struct torchtitan_state *)r->state)->shard);
}

/* global_batch_size = -1 is the product of the local batches. */
static int take_unless_auto(struct reader *r, int field, const char *value)
{
	return !strcmp(value, "-1") ? 0 : reader_put(r, field, value);
}

static int take_param_type(struct reader *r, int field, const char *value)
{
	(void)field;
	((struct torchtitan_state *)r->state)->autocast = !strcmp(value, "bfloat16");
	return 0;
}

static int take_type(struct reader *r, int field, const char *value)
{
	return reader_put(r, field, !strcmp(value, "bfloat16") ? "bf16" : "fp32");
}

static int take_checkpoint(struct reader *r, int field, const char *value)
{
	if (!strcmp(value, "memory_budget")) {
		config_note(r->c, "%s: memory_budget is not modelled", r->origin);
		return 0;
	}
	return reader_put(r, field, value);
}

static int take_reshard(struct reader *r, int field, const char *value)
{
	return !strcmp(value, "default")
		       ? 0
		       : reader_put(r, field, strcmp(value, "always") ? "false" : "true");
}

static int take_implementation(struct reader *r, int field, const char *value)
{
	return reader_put(r, field, !strcmp(value, "for-loop") ? "loop" : value);
}

static int take_module(struct reader *r, int field, const char *value)
{
	struct torchtitan_state *s = r->state;

	(void)field;
	snprintf(s->module, sizeof(s->module), "%s", value);
	return 0;
}

static int take_flavor(struct reader *r, int field, const char *value)
{
	struct torchtitan_state *s = r->state;

	(void)field;
	snprintf(s->flavor, sizeof(s->flavor), "%s", value);
	snprintf(s->flavor_origin, sizeof(s->flavor_origin), "%s %s", r->origin, value);
	return 0;
}

/* ---- built-in models: their sizes are in torchtitan's code ---- */

static const struct model {
	const char *name, *fields;
} models[] = {
#define MODEL(name, fields) { name, fields },
#include "readers/torchtitan_models.def"
#undef MODEL
};

/* The model with the longest name that the flavor begins with: "8B" of llama3,
 * "./train_configs/llama3_8b.toml", "llama3_8b_mxfp8". */
static const struct model *find_model(const struct torchtitan_state *s)
{
	const char *base = strrchr(s->flavor, '/');
	const char *module = s->module[0] ? s->module : "llama3";
	const struct model *found = NULL;
	char name[300];
	size_t n;

	base = base ? base + 1 : s->flavor;
	n = strcspn(base, ".");
	if (strcmp(base + n, ".toml"))
		n = strlen(base);
	for (int with_module = 0; with_module < 2; with_module++) {
		snprintf(name, sizeof(name), "%s%s%.*s", with_module ? module : "",
			 with_module ? "_" : "", (int)n, base);
		for (char *at = name; *at; at++)
			*at = *at == '-' || *at == '.' ? '_' : (char)tolower((unsigned char)*at);
		for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
			size_t length = strlen(models[i].name);

			if (!strncmp(name, models[i].name, length) &&
			    (!name[length] || name[length] == '_') &&
			    (!found || length > strlen(found->name)))
				found = &models[i];
		}
	}
	return found;
}

/* Sets the model's fields that are not given. */
static int put_model(struct reader *r, const struct torchtitan_state *s)
{
	const struct model *m = find_model(s);
	char text[512], *save = NULL;

	if (!s->flavor[0])
		return 0;
	if (!m) {
		if (!config_has(r->c, CONFIG_num_layers))
			config_note(
				r->c,
				"%s: its sizes are in torchtitan's code; give the model's config.json with --config",
				s->flavor_origin);
		return 0;
	}
	snprintf(text, sizeof(text), "%s", m->fields);
	for (char *pair = strtok_r(text, " ", &save); pair; pair = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(pair, '=');

		*equals = 0;
		if (config_set_default(r->c, config_find(pair), equals + 1, m->name, r->e))
			return -1;
	}
	return 0;
}

static const struct key_row rows[] = {
	{ "module", -1, take_module },
	{ "model.name", -1, take_module },
	{ "config", -1, take_flavor },
	{ "model.flavor", -1, take_flavor },
	{ "job.config_file", -1, take_flavor },
	{ "training.seq_len", CONFIG_seq_length, NULL },
	{ "training.max_context_length", CONFIG_seq_length, NULL },
	{ "training.local_batch_size", CONFIG_micro_batch_size, NULL },
	{ "training.batch_size", CONFIG_micro_batch_size, NULL },
	{ "training.num_tokens_per_microbatch_per_dp_rank", -1, take_tokens },
	{ "training.global_batch_size", CONFIG_global_batch_size, take_unless_auto },
	{ "training.dtype", CONFIG_precision, take_type },
	{ "training.mixed_precision_param", -1, take_param_type },
	{ "training.mixed_precision_reduce", -1, take_ignore },
	{ "training.max_norm", CONFIG_clip_grad, NULL },
	{ "training.enable_cpu_offload", CONFIG_optimizer_cpu_offload, NULL },
	{ "training.compile", CONFIG_torch_compile, NULL },
	{ "compile.enable", CONFIG_torch_compile, NULL },
	{ "parallelism.data_parallel_replicate_degree", CONFIG_data_parallel_replicate_size, NULL },
	{ "parallelism.data_parallel_shard_degree", -1, take_shard },
	{ "parallelism.fsdp_reshard_after_forward", CONFIG_reshard_after_forward, take_reshard },
	{ "parallelism.tensor_parallel_degree", CONFIG_tensor_model_parallel_size, NULL },
	{ "parallelism.enable_sequence_parallel", CONFIG_sequence_parallel, NULL },
	{ "parallelism.pipeline_parallel_degree", CONFIG_pipeline_model_parallel_size, NULL },
	{ "parallelism.pipeline_parallel_layers_per_stage",
	  CONFIG_num_layers_per_virtual_pipeline_stage, NULL },
	{ "parallelism.pipeline_parallel_microbatch_size", -1, take_pp_microbatch },
	{ "parallelism.num_pp_microbatches", CONFIG_num_microbatches, NULL },
	{ "parallelism.context_parallel_degree", CONFIG_context_parallel_size, NULL },
	{ "parallelism.expert_parallel_degree", CONFIG_expert_model_parallel_size, NULL },
	{ "parallelism.expert_tensor_parallel_degree", CONFIG_expert_tensor_parallel_size, NULL },
	{ "activation_checkpoint.mode", CONFIG_recompute_granularity, take_checkpoint },
	{ "ac.mode", CONFIG_recompute_granularity, take_checkpoint },
	{ "optimizer.name", CONFIG_optimizer, take_optimizer },
	{ "optimizer.implementation", CONFIG_optimizer_implementation, take_implementation },
};

/* A key without a row: a note if its section affects memory. */
static int unknown(struct reader *r, const char *key, const char *value)
{
	static const char *const matter[] = { "training.", "parallelism.", "activation_checkpoint.",
					      "quantize.", "float8." };
	static const char *const silent[] = { "training.steps",
					      "training.data",
					      "training.seed",
					      "training.gc",
					      "training.deterministic",
					      "parallelism.pipeline_parallel_schedule",
					      "parallelism.enable_async",
					      "training.warmup",
					      "training.train_timeout" };

	(void)value;
	for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
		if (!strncmp(key, silent[i], strlen(silent[i])))
			return 0;
	for (size_t i = 0; i < ARRAY_SIZE(matter); i++)
		if (!strncmp(key, matter[i], strlen(matter[i])))
			config_note(r->c, "%s: unknown key %s", r->origin, key);
	return 0;
}

static const struct key_table table = { rows, ARRAY_SIZE(rows), 0, unknown };

static const struct {
	enum config_field field;
	const char *value;
} defaults[] = {
	{ CONFIG_arch, "llama" },
	{ CONFIG_optimizer, "adamw" },
	{ CONFIG_optimizer_implementation, "fused" },
	{ CONFIG_clip_grad, "1.0" },
	{ CONFIG_attention, "sdpa" },
};

static int finish(struct reader *r, struct torchtitan_state *s)
{
	struct config *c = r->c;
	int64_t p = c->pipeline_model_parallel_size;

	r->origin = "torchtitan";
	r->key = "framework";
	if (put_model(r, s) || reader_put(r, CONFIG_framework, "torchtitan"))
		return -1;
	/* The weights are fp32 and the computation is in bf16, unless the weights are bf16. */
	if (!(config_has(c, CONFIG_precision) && !strcmp(c->precision, "bf16")) &&
	    config_set_int(c, CONFIG_grad_bytes, 4, "torchtitan's default", r->e))
		return -1;
	if (s->autocast && (!config_has(c, CONFIG_precision) || !strcmp(c->precision, "fp32"))) {
		config_unset(c, CONFIG_precision);
		if (config_set_default(c, CONFIG_precision, "bf16-autocast", "torchtitan's default",
				       r->e))
			return -1;
	}
	if (s->shard != 1 && (config_set_default(c, CONFIG_zero_stage, "3",
						 "torchtitan: data_parallel_shard_degree", r->e)))
		return -1;
	if (c->tensor_model_parallel_size > 1 &&
	    config_set_default(c, CONFIG_sequence_parallel, "true", "torchtitan's default", r->e))
		return -1;
	if (s->tokens > 0 && c->seq_length > 0 &&
	    config_set_int(c, CONFIG_micro_batch_size, s->tokens / c->seq_length,
			   "training.num_tokens_per_microbatch_per_dp_rank", r->e))
		return -1;
	/* A pipeline divides the local batch into micro-batches of
	 * pipeline_parallel_microbatch_size sequences. */
	if (p > 1 && !config_has(c, CONFIG_num_microbatches) &&
	    config_has(c, CONFIG_micro_batch_size)) {
		int64_t local = c->micro_batch_size,
			micro = s->pp_microbatch > 0 ? s->pp_microbatch : 1;

		if (local % micro)
			return err_set(
				r->e,
				"training.local_batch_size %lld is not a multiple of pipeline_parallel_microbatch_size %lld",
				(long long)local, (long long)micro);
		if (config_set_int(c, CONFIG_num_microbatches, local / micro,
				   "training.local_batch_size", r->e) ||
		    config_set_int(c, CONFIG_micro_batch_size, micro,
				   "pipeline_parallel_microbatch_size", r->e))
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (config_set_default(c, defaults[i].field, defaults[i].value,
				       "torchtitan's default", r->e))
			return -1;
	c->from_framework = 1;
	return 0;
}

int config_read_torchtitan(struct reader *r, const struct flags *f)
{
	struct torchtitan_state s = { .shard = -1, .autocast = 1 };

	r->state = &s;
	return reader_read_flags(r, &table, f) ? -1 : finish(r, &s);
}

int torchtitan_knows(const struct flags *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (strchr(f->at[i].key, '.') && key_row_find(rows, ARRAY_SIZE(rows), f->at[i].key))
			return 1;
	return 0;
}
