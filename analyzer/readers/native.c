#include "readers/native.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "readers/megatron.h"
#include "util/json_text.h"

/* Names that other tools have for a field. Some are Megatron's, without effect there. */
static const struct {
	const char *other, *name;
} others[] = {
	{ "seqlen", "seq_length" },
	{ "seq_len", "seq_length" },
	{ "max_seq_len", "seq_length" },
	{ "max_seq_length", "seq_length" },
	{ "max_length", "seq_length" },
	{ "sequence_length", "seq_length" },
	{ "context_length", "seq_length" },
	{ "block_size", "seq_length" },
	{ "batch_size", "micro_batch_size" },
	{ "batch", "micro_batch_size" },
	{ "bs", "micro_batch_size" },
	{ "mbs", "micro_batch_size" },
	{ "per_device_train_batch_size", "micro_batch_size" },
	{ "train_batch_size", "global_batch_size" },
	{ "gbs", "global_batch_size" },
	{ "grad_accum", "gradient_accumulation_steps" },
	{ "gradient_accumulation", "gradient_accumulation_steps" },
	{ "dtype", "precision" },
	{ "torch_dtype", "precision" },
	{ "mixed_precision", "precision" },
	{ "optim", "optimizer" },
	{ "gradient_checkpointing", "recompute_granularity" },
	{ "activation_checkpointing", "recompute_granularity" },
	{ "attn_implementation", "attention" },
	{ "tp", "tensor_model_parallel_size" },
	{ "tp_size", "tensor_model_parallel_size" },
	{ "tensor_parallel", "tensor_model_parallel_size" },
	{ "tensor_parallel_size", "tensor_model_parallel_size" },
	{ "pp", "pipeline_model_parallel_size" },
	{ "pp_size", "pipeline_model_parallel_size" },
	{ "pipeline_parallel_size", "pipeline_model_parallel_size" },
	{ "cp", "context_parallel_size" },
	{ "ep", "expert_model_parallel_size" },
	{ "expert_parallel_size", "expert_model_parallel_size" },
	{ "dp", "data_parallel_size" },
	{ "vpp", "virtual_pipeline_model_parallel_size" },
	{ "gpus", "world_size" },
	{ "num_gpus", "world_size" },
	{ "n_gpus", "world_size" },
	{ "zero", "zero_stage" },
	{ "stage", "zero_stage" },
	{ "layers", "num_layers" },
	{ "n_layer", "num_layers" },
	{ "n_layers", "num_layers" },
	{ "num_hidden_layers", "num_layers" },
	{ "n_embd", "hidden_size" },
	{ "d_model", "hidden_size" },
	{ "n_head", "num_attention_heads" },
	{ "n_heads", "num_attention_heads" },
	{ "heads", "num_attention_heads" },
	{ "num_key_value_heads", "num_query_groups" },
	{ "kv_heads", "num_query_groups" },
	{ "head_dim", "kv_channels" },
	{ "intermediate_size", "ffn_hidden_size" },
	{ "vocab", "vocab_size" },
	{ "params", "num_parameters" },
	{ "num_params", "num_parameters" },
};

static const char *other_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcasecmp(name, others[i].other))
			return others[i].name;
	return NULL;
}

int config_set(struct config *c, const char *name, const char *value, const char *origin,
	       struct err *e)
{
	struct reader r = { .c = c, .key = name, .origin = origin, .e = e };
	int field = config_find(name);
	const char *near = other_name(name);

	if (field >= 0)
		return reader_put(&r, field, value);
	if (!near && megatron_has_key(name))
		return megatron_read_key(&r, name, value);
	near = near ? near : config_near_name(name);
	return err_set(e, "%s: no key \"%.60s\"%s%s%s", origin, name,
		       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* The environment stays one text: its readers know the variables. */
static char *object_text(const struct doc_node *map)
{
	json_t *object = json_object();
	char *text;

	for (const struct doc_node *n = map->first; n; n = n->next)
		json_set_text(object, n->key, n->text ? n->text : "");
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static int read_member(struct reader *r, const struct doc_node *n)
{
	int field = config_find(n->key);
	char *text;
	int status;

	r->key = n->key;
	r->node = n;
	if (n->kind == DOC_NULL) {
		if (field >= 0)
			config_unset(r->c, field);
		return 0;
	}
	if (n->kind == DOC_MAP && field != CONFIG_environment) {
		if (field >= 0)
			return err_set(r->e, "%s: %s is an object, but must be one value",
				       r->origin, n->key);
		config_note(r->c, "%s: unknown key %s", r->origin, n->key);
		return 0;
	}
	if (n->kind == DOC_LIST && field >= 0 && strcmp(config_type(field), "TEXT"))
		return err_set(r->e, "%s: %s is a list, but must be one value", r->origin, n->key);
	text = n->kind == DOC_MAP ? object_text(n) : doc_text(n);
	if (field >= 0) {
		status = reader_put(r, field, text);
	} else if (megatron_has_key(n->key)) {
		status = megatron_read_key(r, n->key, text);
	} else {
		const char *near = other_name(n->key);

		if (!near && !config_notes_full(r->c))
			near = config_near_name(n->key);

		config_note(r->c, "%s: unknown key %s%s%s", r->origin, n->key,
			    near ? "; did you mean " : "", near ? near : "");
		status = 0;
	}
	free(text);
	return status;
}

int config_read_native(struct reader *r, const struct doc_node *root, const char *name)
{
	int status = 0;

	for (const struct doc_node *n = root->first; n && !status; n = n->next) {
		char *origin = xasprintf("%s:%u", name, n->line);

		r->origin = origin;
		status = read_member(r, n);
		r->origin = name;
		free(origin);
	}
	return status;
}
