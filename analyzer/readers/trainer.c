/* Trainer's arguments, and the configuration of the model that they name. */
#include "readers/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "readers/accelerate.h"
#include "readers/deepspeed.h"
#include "util/buf.h"

struct trainer_state {
	int bf16, fp16, deepspeed;
	int peft;        /* TRL's --use_peft */
	char lora_r[24]; /* TRL's rank, which only use_peft uses */
};

static int take_16bit(struct reader *r, int field, const char *value)
{
	struct trainer_state *s = r->state;
	int on = parse_bool(value);

	(void)field;
	if (on < 0)
		return err_set(r->e, "%s: %s is \"%.60s\", but must be true or false", r->origin,
			       r->key, value);
	*(r->key[0] == 'b' ? &s->bf16 : &s->fp16) = on;
	return 0;
}

static int take_model(struct reader *r, int field, const char *value)
{
	struct stat st;
	char *path;
	int status = 0;

	(void)field;
	if (stat(value, &st)) {
		config_note(r->c,
			    "%s %s: no such directory here; give its config.json with --config",
			    r->origin, value);
		return 0;
	}
	path = S_ISDIR(st.st_mode) ? xasprintf("%s/config.json", value) : xstrdup(value);
	status = r->read_file(r, path, 1);
	free(path);
	return status;
}

/* "full_shard auto_wrap offload" */
static int take_fsdp(struct reader *r, int field, const char *value)
{
	(void)field;
	if (strstr(value, "offload") && (reader_put(r, CONFIG_offload_param, "cpu") ||
					 reader_put(r, CONFIG_offload_optimizer, "cpu")))
		return -1;
	if (strstr(value, "no_shard"))
		return reader_put(r, CONFIG_zero_stage, "0");
	if (strstr(value, "shard_grad_op"))
		return reader_put(r, CONFIG_zero_stage, "2") ||
				       reader_put(r, CONFIG_reshard_after_forward, "false")
			       ? -1
			       : 0;
	if (strstr(value, "shard") || parse_bool(value) == 1)
		return reader_put(r, CONFIG_zero_stage, "3") ||
				       reader_put(r, CONFIG_reshard_after_forward, "true")
			       ? -1
			       : 0;
	return 0;
}

static int take_checkpointing(struct reader *r, int field, const char *value)
{
	int on = parse_bool(value);

	if (on < 0)
		return err_set(r->e, "%s: %s is \"%.60s\", but must be true or false", r->origin,
			       r->key, value);
	return on ? reader_put(r, field, "full") : 0;
}

static int take_deepspeed(struct reader *r, int field, const char *value)
{
	struct trainer_state *s = r->state;

	(void)field, (void)value;
	s->deepspeed = 1; /* deepspeed.c reads the file */
	return 0;
}

/* Trainer's adafactor is the one of transformers. */
static int take_optim(struct reader *r, int field, const char *value)
{
	return take_optimizer(r, field,
			      strcmp(value, "adafactor") ? value : "transformers-adafactor");
}

/* TRL's arguments */
static int take_peft(struct reader *r, int field, const char *value)
{
	struct trainer_state *s = r->state;

	(void)field;
	s->peft = parse_bool(value) == 1;
	return 0;
}

static int take_lora_r(struct reader *r, int field, const char *value)
{
	struct trainer_state *s = r->state;

	(void)field;
	snprintf(s->lora_r, sizeof(s->lora_r), "%s", value);
	return 0;
}

/* "all-linear", LLaMA-Factory's "all", "q_proj,v_proj" or a list of names */
static int take_targets(struct reader *r, int field, const char *value)
{
	struct buf names = { 0 };
	int status;

	for (const char *at = value; *at; at++)
		if (!strchr("[]\"' ", *at))
			buf_add(&names, at, 1);
	buf_puts(&names, "");
	status = reader_put(r, field, strcmp(names.text, "all") ? names.text : "all-linear");
	buf_release(&names);
	return status;
}

/* LLaMA-Factory's: lora, freeze or full */
static int take_finetuning(struct reader *r, int field, const char *value)
{
	if (!strcmp(value, "freeze"))
		return reader_put_unmodelled(r, "finetuning_type", "frozen layers");
	return strcmp(value, "lora")
		       ? 0
		       : config_set_default(r->c, field, "8", "LLaMA-Factory's default", r->e);
}

/* Options with which a job is another one. */
static int take_unmodelled(struct reader *r, int field, const char *value)
{
	(void)field;
	if (parse_bool(value) == 0 || !strcmp(value, "1"))
		return 0;
	return reader_put_unmodelled(r, r->key, value);
}

static const struct key_row rows[] = {
	{ "model_name_or_path", -1, take_model },
	{ "config_name", -1, take_model },
	{ "per_device_train_batch_size", CONFIG_micro_batch_size, NULL },
	{ "gradient_accumulation_steps", CONFIG_gradient_accumulation_steps, NULL },
	{ "max_grad_norm", CONFIG_clip_grad, NULL },
	{ "block_size", CONFIG_seq_length, NULL },
	{ "max_seq_length", CONFIG_seq_length, NULL },
	{ "max_length", CONFIG_seq_length, NULL },
	{ "model_max_length", CONFIG_seq_length, NULL },
	{ "cutoff_len", CONFIG_seq_length, NULL },
	{ "bf16", -1, take_16bit },
	{ "fp16", -1, take_16bit },
	{ "optim", CONFIG_optimizer, take_optim },
	{ "adafactor", -1, take_ignore },
	{ "gradient_checkpointing", CONFIG_recompute_granularity, take_checkpointing },
	{ "activation_checkpointing", CONFIG_recompute_granularity, take_checkpointing },
	{ "fsdp", -1, take_fsdp },
	{ "fsdp_transformer_layer_cls_to_wrap", CONFIG_fsdp_units, NULL },
	{ "deepspeed", -1, take_deepspeed },
	{ "torch_compile", CONFIG_torch_compile, NULL },
	{ "attn_implementation", CONFIG_attention, take_attention },
	{ "ddp_bucket_cap_mb", CONFIG_ddp_bucket_cap_mb, NULL },
	{ "use_peft", -1, take_peft },
	{ "lora_r", -1, take_lora_r },
	{ "lora_rank", CONFIG_lora_rank, NULL },
	{ "finetuning_type", CONFIG_lora_rank, take_finetuning },
	{ "lora_target_modules", CONFIG_lora_target_modules, take_targets },
	{ "lora_target", CONFIG_lora_target_modules, take_targets },
	{ "lora_dropout", CONFIG_lora_dropout, NULL },
	{ "lora_alpha", -1, take_ignore },
	{ "lora_task_type", -1, take_ignore },
	{ "use_liger_kernel", CONFIG_use_liger_kernel, NULL },
	{ "enable_liger_kernel", CONFIG_use_liger_kernel, NULL },
	{ "load_in_4bit", -1, take_unmodelled },
	{ "load_in_8bit", -1, take_unmodelled },
	{ "quantization_bit", -1, take_unmodelled },
	{ "use_dora", -1, take_unmodelled },
	{ "tp_size", -1, take_unmodelled },
};

/* A key without a row: a note if it is an option that affects memory. */
static int unknown(struct reader *r, const char *key, const char *value)
{
	static const char *const matter[] = { "lora", "auto_find_batch_size",
					      "torch_empty_cache_steps" };

	for (size_t i = 0; i < ARRAY_SIZE(matter); i++)
		if (!strncmp(key, matter[i], strlen(matter[i])) && parse_bool(value) != 0)
			config_note(r->c, "%s: %s matters for memory but is not modelled",
				    r->origin, key);
	return 0;
}

static const struct key_table table = { rows, ARRAY_SIZE(rows), 0, unknown };
static const struct key_table file_table = { rows, ARRAY_SIZE(rows), 1,
					     unknown }; /* "deepspeed" may be a section */

static const struct {
	enum config_field field;
	const char *value;
} defaults[] = {
	{ CONFIG_framework, "transformers" },
	{ CONFIG_micro_batch_size, "8" },
	{ CONFIG_gradient_accumulation_steps, "1" },
	{ CONFIG_clip_grad, "1.0" },
	{ CONFIG_optimizer, "adamw" },
	{ CONFIG_attention, "sdpa" },
};

/* TRL's adapters, with the defaults of its ModelConfig. */
static int put_peft(struct reader *r, const struct trainer_state *s)
{
	if (!s->peft) {
		if (s->lora_r[0])
			config_note(r->c, "lora_r without use_peft has no effect");
		return 0;
	}
	r->origin = "--use_peft";
	r->key = "lora_r";
	return reader_put(r, CONFIG_lora_rank, s->lora_r[0] ? s->lora_r : "16") ||
			       config_set_default(r->c, CONFIG_lora_dropout, "0.05",
						  "TRL's default", r->e)
		       ? -1
		       : 0;
}

/* --bf16 is autocast over fp32 weights; under DeepSpeed it is 16-bit weights with fp32 master
 * weights. */
static int finish(struct reader *r, struct trainer_state *s)
{
	struct config *c = r->c;
	int deepspeed = s->deepspeed || c->automatic[CONFIG_precision] ||
			config_has(c, CONFIG_reduce_bucket_size);
	char text[32];

	if (put_peft(r, s))
		return -1;
	if (s->bf16 && s->fp16)
		return err_set(r->e, "%s: bf16 contradicts fp16: one precision can be enabled",
			       r->origin);
	r->origin = s->bf16 ? "--bf16" : "--fp16";
	r->key = r->origin + 2;
	snprintf(text, sizeof(text), "%s-%s", r->key, deepspeed ? "mixed" : "autocast");
	if ((s->bf16 || s->fp16) && reader_put(r, CONFIG_precision, text))
		return -1;
	if (s->fp16 && reader_put(r, CONFIG_grad_scaler, "true"))
		return -1;
	if (config_set_default(c, CONFIG_precision, "fp32", "Trainer's default", r->e))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (config_set_default(c, defaults[i].field, defaults[i].value, "Trainer's default",
				       r->e))
			return -1;
	c->from_framework = 1;
	return 0;
}

/* Reads a file of fsdp_config's keys; a missing file is a note. */
static int read_fsdp_file(struct reader *r, const char *path)
{
	struct err why = { "" };
	size_t length;
	char *text = doc_file_text(path, &length, &why);
	struct doc_node *root;
	int status;

	if (!text) {
		config_note(r->c, "%s; give it with --config", why.text);
		return 0;
	}
	root = doc_read_json(text, length, path, r->e);
	status = root ? config_read_fsdp(r, root, path) : -1;
	doc_free(root);
	free(text);
	return status;
}

/* Reads --fsdp_config: a file, or JSON. */
static int read_fsdp_flag(struct reader *r, const struct flag *flag)
{
	struct doc_node *root;
	int status;

	if (flag->value[0] != '{')
		return read_fsdp_file(r, flag->value);
	root = doc_read_json(flag->value, strlen(flag->value), flag->written, r->e);
	status = root ? config_read_fsdp(r, root, flag->written) : -1;
	doc_free(root);
	return status;
}

int config_read_trainer(struct reader *r, const struct flags *f)
{
	const struct flag *fsdp = flags_find(f, "fsdp_config");
	struct trainer_state s = { 0 };

	if (fsdp && fsdp->value && read_fsdp_flag(r, fsdp))
		return -1;
	r->state = &s;
	return reader_read_flags(r, &table, f) ? -1 : finish(r, &s);
}

int config_read_trainer_file(struct reader *r, const struct doc_node *root, const char *name)
{
	const struct doc_node *deepspeed = doc_find(root, "deepspeed");
	const struct doc_node *fsdp = doc_find(root, "fsdp_config");
	struct trainer_state s = { 0 };

	if (deepspeed && deepspeed->kind == DOC_STRING && r->read_file(r, deepspeed->text, 1))
		return -1;
	if (deepspeed && deepspeed->kind == DOC_MAP && config_read_deepspeed(r, deepspeed, name))
		return -1;
	if (fsdp && fsdp->kind == DOC_STRING && read_fsdp_file(r, fsdp->text))
		return -1;
	if (fsdp && fsdp->kind == DOC_MAP && config_read_fsdp(r, fsdp, name))
		return -1;
	r->state = &s;
	r->origin = name;
	return reader_read_map(r, &file_table, root, name) ? -1 : finish(r, &s);
}

int trainer_knows(const struct flags *f)
{
	static const char *const telling[] = { "per_device_train_batch_size", "model_name_or_path",
					       "gradient_checkpointing", "fsdp" };

	for (size_t i = 0; i < ARRAY_SIZE(telling); i++)
		if (flags_find(f, telling[i]))
			return 1;
	return 0;
}
