#include "readers/files.h"

#include "util/util.h"
#include <stdlib.h>
#include <string.h>

#include "readers/accelerate.h"
#include "readers/deepspeed.h"
#include "readers/hf.h"
#include "readers/megatron.h"
#include "readers/native.h"
#include "readers/trainer.h"

#define MAX_FILE_DEPTH 6 /* depth of files that name files */

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

/* The native format may have a model_type too, but calls the layers num_layers. */
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
	return is_yaml ? config_read_megatron_yaml(r, root, name)
		       : config_read_native(r, root, name);
}

static int read_text(struct reader *r, const char *text, size_t length, const char *name,
		     int is_yaml)
{
	struct doc_node *root = is_yaml ? doc_read_yaml(text, length, name, r->e)
					: doc_read_json(text, length, name, r->e);
	int status = root ? read_tree(r, root, name, is_yaml) : -1;

	doc_free(root);
	return status;
}

static int read_file(struct reader *r, const char *path, int lenient)
{
	struct reader inner = *r;
	int is_yaml = ends_with(path, ".yaml") || ends_with(path, ".yml"), status;
	struct err why = { "" };
	size_t length;
	char *text;

	inner.key = "";
	inner.origin = path;
	inner.node = NULL;
	inner.state = NULL;
	inner.depth++;
	if (inner.depth > MAX_FILE_DEPTH)
		return err_set(r->e, "%s: files that name each other", path);
	text = doc_file_text(path, &length, &why);
	if (!text && (lenient || r->lenient)) {
		config_note(r->c, "%s; give it with --config", why.text);
		return 0;
	}
	if (!text)
		return err_set(r->e, "%s", why.text);
	status = read_text(&inner, text, length, path, is_yaml);
	free(text);
	return status;
}

void reader_init(struct reader *r, struct config *c, const char *origin, struct err *e)
{
	*r = (struct reader){ .c = c,
			      .key = "",
			      .origin = origin,
			      .e = e,
			      .read_file = read_file,
			      .read_text = read_text };
}

int config_read_file(struct config *c, const char *path, struct err *e)
{
	struct reader r;

	reader_init(&r, c, path, e);
	return read_file(&r, path, 0);
}
