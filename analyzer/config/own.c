/* Our own JSON, the kinds of file, and finding out which one a file is. */
#include "config/formats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "config/megatron_names.h"

#define FILES_MOST 6         /* a file that names one that names one … */
#define FILE_MOST (16 << 20) /* bytes; the largest real ones have some hundred KiB */

static const char *const megatron_names[] = {
#include "config/megatron_names.def"
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int megatron_known(const char *key)
{
	return bsearch(&key, megatron_names, ARRAY_SIZE(megatron_names), sizeof(char *), compare) !=
	       NULL;
}

/* ---- our own ---- */

static const char *near_name(const char *key)
{
	static const char *const names[] = {
#define FIELD(name, type, help) #name,
#include "config/fields.def"
#undef FIELD
		NULL
	};

	const char *shortest = NULL;

	/* "num_layer" means num_layers, not the longest of those that begin so */
	for (size_t i = 0; names[i]; i++)
		if (strlen(key) > 3 && !strncmp(names[i], key, strlen(key)) &&
		    (!shortest || strlen(names[i]) < strlen(shortest)))
			shortest = names[i];
	return shortest ? shortest : nearest(key, names);
}

int config_set(struct config *c, const char *name, const char *value, const char *origin,
	       struct err *e)
{
	struct reader r = { c, name, origin, NULL, e, 0, 0, NULL };
	int field = config_find(name);
	const char *near;

	if (field >= 0)
		return config_put(&r, field, value);
	if (megatron_has_key(name))
		return megatron_read_key(&r, name, value);
	near = near_name(name);
	return err_set(e, "%s: no key \"%.60s\"%s%s%s", origin, name,
		       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* The environment stays one text: who reads it knows its variables. */
static char *object_text(const struct doc_node *map)
{
	struct buf b = { 0 };

	buf_puts(&b, "{");
	for (const struct doc_node *n = map->first; n; n = n->next) {
		const char *value = n->text ? n->text : "";

		if (n != map->first)
			buf_puts(&b, ",");
		add_json_string(&b, (struct str){ n->key, strlen(n->key) });
		buf_puts(&b, ":");
		add_json_string(&b, (struct str){ value, strlen(value) });
	}
	buf_puts(&b, "}");
	return buf_take(&b);
}

static int read_own_member(struct reader *r, const struct doc_node *n)
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
		status = config_put(r, field, text);
	} else if (megatron_has_key(n->key)) {
		status = megatron_read_key(r, n->key, text);
	} else {
		const char *near = config_notes_full(r->c) ? NULL : near_name(n->key);

		config_note(r->c, "%s: unknown key %s%s%s", r->origin, n->key,
			    near ? "; did you mean " : "", near ? near : "");
		status = 0;
	}
	free(text);
	return status;
}

int config_read_own(struct reader *r, const struct doc_node *root, const char *name)
{
	int status = 0;

	for (const struct doc_node *n = root->first; n && !status; n = n->next) {
		char *origin = xasprintf("%s:%u", name, n->line);

		r->origin = origin;
		status = read_own_member(r, n);
		r->origin = name;
		free(origin);
	}
	return status;
}

/* ---- which kind a file is ---- */

static int has_any(const struct doc_node *root, const char *const *keys)
{
	for (; *keys; keys++)
		if (doc_find(root, *keys))
			return 1;
	return 0;
}

static const char *const hf_keys[] = { "architectures", "num_hidden_layers", "n_layer", "d_model",
				       "text_config",   "model_type",        NULL };
static const char *const deepspeed_keys[] = { "zero_optimization",
					      "train_batch_size",
					      "train_micro_batch_size_per_gpu",
					      "zero_allow_untested_optimizer",
					      "activation_checkpointing",
					      "bfloat16",
					      NULL };
static const char *const accelerate_keys[] = { "distributed_type",
					       "fsdp_config",
					       "deepspeed_config",
					       "compute_environment",
					       "megatron_lm_config",
					       "parallelism_config",
					       NULL };
static const char *const trainer_keys[] = { "per_device_train_batch_size", "model_name_or_path",
					    "output_dir", NULL };

/* Ours may name a model_type too, beside names that are Megatron's. */
static int is_hf(const struct doc_node *root)
{
	static const char *const certain[] = { "architectures", "d_model", "text_config", NULL };

	return has_any(root, certain) || (has_any(root, hf_keys) && !doc_find(root, "num_layers"));
}

static int is_deepspeed(const struct doc_node *root)
{
	const struct doc_node *bf16 = doc_find(root, "bf16"), *fp16 = doc_find(root, "fp16");

	return has_any(root, deepspeed_keys) || (bf16 && bf16->kind == DOC_MAP) ||
	       (fp16 && fp16->kind == DOC_MAP);
}

static int read_tree(struct reader *r, const struct doc_node *root, const char *name, int is_yaml)
{
	if (root->kind != DOC_MAP)
		return err_set(r->e, "%s: a configuration is an object, and this is %s", name,
			       doc_kind_name(root->kind));
	if (is_deepspeed(root))
		return config_read_deepspeed(r, root, name);
	if (has_any(root, accelerate_keys) && !doc_find(root, "per_device_train_batch_size"))
		return config_read_accelerate(r, root, name);
	if (is_hf(root))
		return config_read_hf(r, root, name);
	if (has_any(root, trainer_keys))
		return config_read_trainer_file(r, root, name);
	return is_yaml ? config_read_megatron_yaml(r, root, name) : config_read_own(r, root, name);
}

/* The whole of a file; NULL: the message says why. */
static char *read_whole(const char *path, size_t *length, struct err *e)
{
	FILE *f = fopen(path, "rb");
	struct buf b = { 0 };
	char chunk[65536];
	size_t n;

	if (!f) {
		err_set(e, "%s: %s", path, strerror(errno));
		return NULL;
	}
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0 && b.length <= FILE_MOST)
		buf_add(&b, chunk, n);
	if (ferror(f))
		err_set(e, "%s: %s", path, strerror(errno));
	else if (b.length > FILE_MOST)
		err_set(e, "%s: more than %d MiB: not a configuration", path, FILE_MOST >> 20);
	else if (b.length == 0)
		err_set(e, "%s: empty", path);
	fclose(f);
	*length = b.length;
	if (e->text[0]) {
		buf_release(&b);
		return NULL;
	}
	return buf_take(&b);
}

static int ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

int config_read_text(struct reader *r, const char *text, size_t length, const char *name,
		     int is_yaml)
{
	struct doc_node *root = is_yaml ? doc_read_yaml(text, length, name, r->e)
				    : doc_read_json(text, length, name, r->e);
	int status = root ? read_tree(r, root, name, is_yaml) : -1;

	doc_free(root);
	return status;
}

int config_read_path(struct reader *r, const char *path, int lenient)
{
	struct reader inner = { r->c, "", path, NULL, r->e, r->lenient, r->depth + 1, NULL };
	int is_yaml = ends_with(path, ".yaml") || ends_with(path, ".yml"), status;
	struct err why = { "" };
	size_t length;
	char *text;

	if (inner.depth > FILES_MOST)
		return err_set(r->e, "%s: files that name each other", path);
	text = read_whole(path, &length, &why);
	if (!text && (lenient || r->lenient)) {
		config_note(r->c, "%s; give it with --config", why.text);
		return 0;
	}
	if (!text)
		return err_set(r->e, "%s", why.text);
	status = config_read_text(&inner, text, length, path, is_yaml);
	free(text);
	return status;
}

/* Another reader's file, for one that names it. */
int config_read_fsdp_file(struct reader *r, const char *path)
{
	struct err why = { "" };
	size_t length;
	char *text = read_whole(path, &length, &why);
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

int config_read_file(struct config *c, const char *path, struct err *e)
{
	struct reader r = { c, "", path, NULL, e, 0, 0, NULL };

	return config_read_path(&r, path, 0);
}
