/* Accelerate. One table serves its YAML, the environment that `accelerate launch` sets, and the
 * flags of the launcher. */
#include "readers/accelerate.h"

#include <ctype.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEEPSPEED = 1, FSDP = 2, MEGATRON = 4 };

struct accelerate_state {
	unsigned bits;
	char precision[16]; /* "bf16"; its meaning depends on the sharding framework */
	char origin[128];
};

static int take_type(struct reader *r, int field, const char *value)
{
	struct accelerate_state *s = r->state;

	(void)field;
	s->bits |= !strcmp(value, "DEEPSPEED")     ? DEEPSPEED
		   : !strcmp(value, "FSDP")        ? FSDP
		   : !strcmp(value, "MEGATRON_LM") ? MEGATRON
						   : 0;
	return 0;
}

/* ACCELERATE_USE_FSDP=true; the key says which framework shards. */
static int take_use(struct reader *r, int field, const char *value)
{
	struct accelerate_state *s = r->state;

	(void)field;
	if (parse_bool(value) == 1)
		s->bits |= strstr(r->key, "deepspeed") ? DEEPSPEED
			   : strstr(r->key, "fsdp")    ? FSDP
						       : MEGATRON;
	return 0;
}

static int take_precision(struct reader *r, int field, const char *value)
{
	struct accelerate_state *s = r->state;

	(void)field;
	if (strcmp(value, "no") && strcmp(value, "bf16") && strcmp(value, "fp16") &&
	    strcmp(value, "fp8"))
		return err_set(r->e, "%s: %s is \"%.60s\", but must be one of: no fp16 bf16 fp8",
			       r->origin, r->key, value);
	snprintf(s->precision, sizeof(s->precision), "%s", value);
	snprintf(s->origin, sizeof(s->origin), "%s", r->origin);
	return 0;
}

/* FSDP 1 has sharding strategies, by name or number; FSDP 2 has only reshard_after_forward. */
static int take_strategy(struct reader *r, int field, const char *value)
{
	static const struct {
		const char *name, *number, *stage, *reshard;
	} strategies[] = {
		{ "FULL_SHARD", "1", "3", "true" },          { "SHARD_GRAD_OP", "2", "2", "false" },
		{ "NO_SHARD", "3", "0", "false" },           { "HYBRID_SHARD", "4", "3", "true" },
		{ "HYBRID_SHARD_ZERO2", "5", "2", "false" },
	};

	(void)field;
	if (!strcmp(value, "None"))
		return 0;
	if (strstr(r->key, "reshard") && parse_bool(value) >= 0 && strlen(value) > 1)
		return reader_put(r, CONFIG_reshard_after_forward, value);
	for (size_t i = 0; i < ARRAY_SIZE(strategies); i++) {
		if (strcmp(value, strategies[i].name) && strcmp(value, strategies[i].number))
			continue;
		if (i >= 3)
			config_note(
				r->c,
				"%s: %s shards within a node; data_parallel_replicate_size says how many copies",
				r->origin, strategies[i].name);
		return reader_put(r, CONFIG_zero_stage, strategies[i].stage) ||
				       reader_put(r, CONFIG_reshard_after_forward,
						  strategies[i].reshard)
			       ? -1
			       : 0;
	}
	return err_set(
		r->e,
		"%s: %s is \"%.60s\", but must be one of: FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD true false",
		r->origin, r->key, value);
}

static int take_offload(struct reader *r, int field, const char *value)
{
	(void)field;
	if (parse_bool(value) != 1)
		return 0;
	return reader_put(r, CONFIG_offload_param, "cpu") ||
			       reader_put(r, CONFIG_offload_optimizer, "cpu")
		       ? -1
		       : 0;
}

static int take_checkpointing(struct reader *r, int field, const char *value)
{
	return parse_bool(value) == 1 ? reader_put(r, field, "full") : 0;
}

static int take_file(struct reader *r, int field, const char *value)
{
	(void)field;
	return !strcmp(value, "None") || !*value ? 0 : r->read_file(r, value, 1);
}

/* In the environment an option that is not given is "None". */
static int take(struct reader *r, int field, const char *value)
{
	if (!strcmp(value, "None") || !strcmp(value, "none") || !*value)
		return 0;
	return reader_put(r, field, value);
}

static int take_dynamo(struct reader *r, int field, const char *value)
{
	return reader_put(r, field, !strcasecmp(value, "no") ? "false" : "true");
}

#define F "fsdp_config.fsdp_"
#define D "deepspeed_config."
#define M "megatron_lm_config.megatron_lm_"
#define P "parallelism_config.parallelism_config_"

static const struct key_row rows[] = {
	{ "distributed_type", -1, take_type },
	{ "use_deepspeed", -1, take_use },
	{ "use_fsdp", -1, take_use },
	{ "use_megatron_lm", -1, take_use },
	{ "mixed_precision", -1, take_precision },
	{ "num_processes", CONFIG_world_size, take },
	{ "num_machines", CONFIG_num_nodes, take },
	{ "gradient_accumulation_steps", CONFIG_gradient_accumulation_steps, take },
	{ "dynamo_backend", CONFIG_torch_compile, take_dynamo },
	{ "dynamo_config.dynamo_backend", CONFIG_torch_compile, take_dynamo },
	{ F "sharding_strategy", -1, take_strategy },
	{ F "reshard_after_forward", -1, take_strategy },
	{ F "offload_params", -1, take_offload },
	{ F "activation_checkpointing", CONFIG_recompute_granularity, take_checkpointing },
	{ F "version", CONFIG_fsdp_version, take },
	{ F "transformer_layer_cls_to_wrap", CONFIG_fsdp_units, take },
	{ F "transformer_cls_to_wrap", CONFIG_fsdp_units, take },
	{ D "deepspeed_config_file", -1, take_file },
	{ D "config_file", -1, take_file },
	{ D "zero_stage", CONFIG_zero_stage, take },
	{ D "gradient_accumulation_steps", CONFIG_gradient_accumulation_steps, take },
	{ D "gradient_clipping", CONFIG_clip_grad, take },
	{ D "offload_optimizer_device", CONFIG_offload_optimizer, NULL },
	{ D "offload_param_device", CONFIG_offload_param, NULL },
	{ D "zero3_init_flag", CONFIG_zero_init, take },
	{ D "zero3_init", CONFIG_zero_init, take },
	{ M "tp_degree", CONFIG_tensor_model_parallel_size, take },
	{ M "pp_degree", CONFIG_pipeline_model_parallel_size, take },
	{ M "num_micro_batches", CONFIG_num_microbatches, take },
	{ M "gradient_clipping", CONFIG_clip_grad, take },
	{ M "sequence_parallelism", CONFIG_sequence_parallel, take },
	{ M "recompute_activations", CONFIG_recompute_granularity, take_checkpointing },
	{ M "recompute_granularity", CONFIG_recompute_granularity, take },
	{ M "recompute_method", CONFIG_recompute_method, take },
	{ M "recompute_num_layers", CONFIG_recompute_num_layers, take },
	{ M "use_distributed_optimizer", CONFIG_use_distributed_optimizer, take },
	{ M "expert_model_parallel_size", CONFIG_expert_model_parallel_size, take },
	{ M "expert_tensor_parallel_size", CONFIG_expert_tensor_parallel_size, take },
	{ M "context_parallel_size", CONFIG_context_parallel_size, take },
	{ M "attention_dropout", CONFIG_attention_dropout, take },
	{ M "hidden_dropout", CONFIG_hidden_dropout, take },
	{ M "optimizer_cpu_offload", CONFIG_optimizer_cpu_offload, take },
	{ P "dp_replicate_size", CONFIG_data_parallel_replicate_size, take },
	{ P "tp_size", CONFIG_tensor_model_parallel_size, take },
	{ P "cp_size", CONFIG_context_parallel_size, take },
};

/* `mixed_precision` means 16-bit weights under DeepSpeed and Megatron, and autocast over fp32
 * weights otherwise. */
static int finish(struct reader *r, struct accelerate_state *s)
{
	struct config *c = r->c;
	int is_16bit = s->bits & (DEEPSPEED | MEGATRON) || c->automatic[CONFIG_precision] ||
		       config_has(c, CONFIG_reduce_bucket_size) ||
		       (config_has(c, CONFIG_precision) && strstr(c->precision, "-mixed"));
	const char *kind = is_16bit ? "mixed" : "autocast";
	char text[40];

	r->origin = s->origin;
	r->key = "mixed_precision";
	if (!strcmp(s->precision, "no"))
		snprintf(text, sizeof(text), "fp32");
	else
		snprintf(text, sizeof(text), "%s-%s",
			 !strcmp(s->precision, "fp8") ? "bf16" : s->precision, kind);
	if (s->precision[0] && reader_put(r, CONFIG_precision, text))
		return -1;
	if (!strcmp(s->precision, "fp8"))
		config_note(c, "%s: fp8 is estimated as bf16", s->origin);
	if (s->bits & FSDP) {
		if (config_set_default(c, CONFIG_zero_stage, "3", "FSDP", r->e) ||
		    config_set_default(c, CONFIG_reshard_after_forward, "true", "FSDP's default",
				       r->e))
			return -1;
	}
	if (s->bits & DEEPSPEED &&
	    config_set_default(c, CONFIG_zero_stage, "2", "Accelerate's default", r->e))
		return -1;
	c->from_framework |= s->bits != 0;
	r->origin = "accelerate";
	return 0;
}

/* Keys of the sections that have no row. Those without effect on memory are ignored silently. */
static int unknown(struct reader *r, const char *key, const char *value)
{
	static const char *const sections[] = { F, D, M, P };
	static const char *const silent[] = {
		F "auto_wrap_policy",
		F "backward_prefetch",
		F "cpu_ram_efficient_loading",
		F "forward_prefetch",
		F "min_num_params",
		F "state_dict_type",
		F "sync_module_states",
		F "use_orig_params",
		F "wrap_query",
		F "backward_prefetch_query",
		F "state_dict_type_query",
		F "xla",
		F "config",
		D "deepspeed_exclusion_filter",
		D "deepspeed_hostfile",
		D "deepspeed_inclusion_filter",
		D "deepspeed_multinode_launcher",
		D "deepspeed_moe_layer_cls_names",
		D "offload_optimizer_nvme_path",
		D "offload_param_nvme_path",
		D "zero3_save_16bit_model",
		M "eod_mask_loss",
		M "calculate_per_token_loss",
		M "no_load_optim",
		M "no_save_optim",
		M "attention_backend",
		M "use_rotary_position_embeddings",
		P "dp_shard_size",
		P "cp_comm_strategy",
		P "cp_backend",
	};

	if (!*value || !strcmp(value, "None") || parse_bool(value) == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
		if (!strcmp(key, silent[i]))
			return 0;
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (!strncmp(key, sections[i], strlen(sections[i]))) {
			config_note(r->c, "%s: unknown key %s", r->origin, r->key);
			return 0;
		}
	return 0;
}

static const struct key_table table = { rows, ARRAY_SIZE(rows), 0, unknown };

int config_read_accelerate(struct reader *r, const struct doc_node *root, const char *name)
{
	struct accelerate_state s = { 0, "", "" };

	r->state = &s;
	if (reader_read_tree(r, &table, root, name))
		return -1;
	if (doc_find(root, "deepspeed_config") && !s.bits)
		s.bits |= DEEPSPEED;
	return finish(r, &s);
}

int config_read_fsdp(struct reader *r, const struct doc_node *map, const char *name)
{
	struct accelerate_state s = { FSDP, "", "" };
	int status = 0;

	if (map->kind != DOC_MAP)
		return err_set(r->e, "%s: fsdp_config is %s, but must be an object", name,
			       doc_kind_name(map->kind));
	r->state = &s;
	for (const struct doc_node *n = map->first; n && !status; n = n->next) {
		const char *bare = strncmp(n->key, "fsdp_", 5) ? n->key : n->key + 5;
		char *key = xasprintf(F "%s", bare), *text = doc_text(n);
		char *origin = xasprintf("%s:%u", name, n->line);

		r->origin = origin;
		if (n->kind != DOC_MAP && n->kind != DOC_NULL)
			status = reader_read_key(r, &table, key, text);
		r->origin = name;
		r->key = "";
		free(origin);
		free(key);
		free(text);
	}
	r->state = NULL;
	return status;
}

/* ---- the environment ---- */

static const struct {
	const char *variable, *key;
} prefixes[] = {
	{ "ACCELERATE_DEEPSPEED_", D }, { "ACCELERATE_", "" },        { "FSDP_", F },
	{ "MEGATRON_LM_", M },          { "PARALLELISM_CONFIG_", P },
};

int config_read_accelerate_env(struct reader *r, char **env, unsigned count)
{
	struct accelerate_state s = { 0, "", "" };

	r->state = &s;
	for (unsigned i = 0; i < count; i++) {
		const char *equals = strchr(env[i], '=');
		char key[128] = "", origin[96];

		for (size_t p = 0; equals && p < ARRAY_SIZE(prefixes) && !*key; p++) {
			size_t n = strlen(prefixes[p].variable);

			if (!strncmp(env[i], prefixes[p].variable, n))
				snprintf(key, sizeof(key), "%s%.*s", prefixes[p].key,
					 (int)(equals - env[i] - (ptrdiff_t)n), env[i] + n);
		}
		for (char *at = key; *at; at++)
			*at = (char)tolower((unsigned char)*at);
		if (!*key)
			continue;
		snprintf(origin, sizeof(origin), "environment: %.*s", (int)(equals - env[i]),
			 env[i]);
		r->origin = origin;
		if (reader_read_key(r, &table, key, equals + 1))
			return -1;
		r->origin = "environment";
	}
	if ((s.bits || s.precision[0]) && finish(r, &s))
		return -1;
	r->origin = "environment";
	r->state = NULL;
	return 0;
}

/* ---- `accelerate launch` ---- */

int config_read_accelerate_flags(struct reader *r, const struct flags *f)
{
	static const char *const sections[][2] = { { "fsdp_", "fsdp_config." },
						   { "megatron_lm_", "megatron_lm_config." },
						   { "parallelism_config_",
						     "parallelism_config." } };
	struct accelerate_state s = { 0, "", "" };
	int status = 0;

	r->state = &s;
	for (size_t i = 0; i < f->count && !status; i++) {
		const struct flag *flag = &f->at[i];
		const char *section = key_row_find(rows, ARRAY_SIZE(rows), flag->key) ? "" : D;
		char key[320];

		for (size_t p = 0; p < ARRAY_SIZE(sections); p++)
			if (!strncmp(flag->key, sections[p][0], strlen(sections[p][0])))
				section = sections[p][1];
		snprintf(key, sizeof(key), "%s%s", section, flag->key);
		r->origin = flag->written;
		/* Most flags without a prefix are not DeepSpeed's. */
		if (!strcmp(section, D) && !key_row_find(rows, ARRAY_SIZE(rows), key))
			continue;
		status = reader_read_key(r, &table, key, flag->value ? flag->value : "true");
	}
	if (!status && (s.bits || s.precision[0]))
		status = finish(r, &s);
	r->origin = "command line";
	r->state = NULL;
	return status;
}
