#include "modelrun/run_fields.h"

#include "util/buf.h"

#include <stdlib.h>
#include <string.h>

enum run_kind { UNKNOWN, SIZE, TAKEN, PLAIN, ENGINE, ONLY, BESIDE };

static const struct {
	enum run_kind kind;
	const char *text; /* the key of a SIZE, the value of an ONLY */
} fields[CONFIG_FIELDS] = {
#define SIZE(name, key) [CONFIG_##name] = { SIZE, key },
#define TAKEN(name) [CONFIG_##name] = { TAKEN, NULL },
#define PLAIN(name) [CONFIG_##name] = { PLAIN, NULL },
#define ENGINE(name) [CONFIG_##name] = { ENGINE, NULL },
#define ONLY(name, value) [CONFIG_##name] = { ONLY, value },
#define BESIDE(name) [CONFIG_##name] = { BESIDE, NULL },
#include "modelrun/run_fields.def"
#undef SIZE
#undef TAKEN
#undef PLAIN
#undef ENGINE
#undef ONLY
#undef BESIDE
};

static int is_word(const char *word, const char *expected)
{
	return word && !strcmp(word, expected);
}

static int has_engine(const struct config *c)
{
	return is_word(c->framework, "deepspeed");
}

/* Does the field come from the model's file? A trace is of the same model. */
static int is_of_model(const struct config *c, enum config_field f)
{
	const char *origin = c->origin[f];

	return c->model_file && (!strncmp(origin, c->model_file, strlen(c->model_file)) ||
				 !strcmp(origin, "the trace"));
}

int run_field_is_told(const struct config *c, enum config_field f)
{
	if (!config_has(c, f) || f == CONFIG_environment)
		return 0;
	switch (fields[f].kind) {
	case SIZE:
		return !c->model_file;
	case PLAIN:
		return !has_engine(c);
	case ENGINE:
		return has_engine(c);
	case TAKEN:
		/* The file's is the version that wrote it. */
		return f != CONFIG_transformers_version || !is_of_model(c, f);
	default:
		return 0;
	}
}

const char *run_field_key(const struct config *c, enum config_field f)
{
	const char *key = fields[f].kind == SIZE ? fields[f].text : "";

	if (!*key || c->model_file || !config_has(c, f))
		return NULL;
	return f == CONFIG_num_experts && is_word(c->model_type, "mixtral") ? "num_local_experts"
									    : key;
}

/* Is the field's value the same as no field? */
static int is_off(const char *value)
{
	return !strcmp(value, "false") || !strcmp(value, "0") || !strcmp(value, "none") || !*value;
}

/* The fields without a key that a job without a file of its model may declare. */
static int is_size_of_job(enum config_field f)
{
	return *fields[f].text || f == CONFIG_model_type ||
	       f == CONFIG_untie_embeddings_and_output_weights;
}

static int check_field(const struct config *c, enum config_field f, const char *value,
		       struct err *e)
{
	const char *name = config_name(f), *only = fields[f].text;

	switch (fields[f].kind) {
	case SIZE:
		if (c->model_file && !is_of_model(c, f))
			return err_set(e,
				       "%s=%.60s (%s): a run takes the model's sizes from its "
				       "config.json: change them there",
				       name, value, c->origin[f]);
		if (!c->model_file && !is_size_of_job(f))
			return err_set(e,
				       "%s=%.60s (%s): a run takes it from the model's "
				       "config.json: --config FILE",
				       name, value, c->origin[f]);
		return 0;
	case PLAIN:
		return has_engine(c)
			       ? err_set(e, "%s=%.60s (%s): a run under DeepSpeed does not do it",
					 name, value, c->origin[f])
			       : 0;
	case ONLY:
		return strcmp(value, only) != 0 ? err_set(e, "%s=%.60s (%s): a run does %s alone",
							  name, value, c->origin[f], only)
						: 0;
	case UNKNOWN:
		return err_set(e, "%s=%.60s (%s): a run does not do it", name, value, c->origin[f]);
	default:
		return 0;
	}
}

static int check_fields(const struct config *c, struct err *e)
{
	int status = 0;

	for (int f = 0; f < CONFIG_FIELDS && !status; f++) {
		struct buf value = { 0 };

		if (!config_has(c, f) || config_is_derived(c, f))
			continue;
		config_value(c, f, &value);
		buf_puts(&value, "");
		if (fields[f].kind == SIZE || !is_off(value.text))
			status = check_field(c, f, value.text, e);
		buf_release(&value);
	}
	return status;
}

static int check_values(const struct config *c, struct err *e)
{
	static const char *const precisions[] = { "fp32",         "bf16",       "fp16",
						  "bf16-mixed",   "fp16-mixed", "bf16-autocast",
						  "fp16-autocast" };
	size_t i = 0;

	while (config_has(c, CONFIG_precision) && i < ARRAY_SIZE(precisions) &&
	       strcmp(precisions[i], c->precision) != 0)
		i++;
	if (i == ARRAY_SIZE(precisions))
		return err_set(e,
			       "precision=%.60s (%s): only fp32, fp16 and bf16, whole, mixed or "
			       "autocast, are run",
			       c->precision, c->origin[CONFIG_precision]);
	if (!has_engine(c) && c->data_parallel_size > 1 && c->zero_stage > 0 && c->zero_stage < 3)
		return err_set(e,
			       "zero_stage=%d (%s): ZeRO-1 and ZeRO-2 are run under DeepSpeed "
			       "only (framework=deepspeed)",
			       (int)c->zero_stage, c->origin[CONFIG_zero_stage]);
	return 0;
}

int run_fields_check(const struct config *c, struct err *e)
{
	if (!is_word(c->framework, "transformers") && !has_engine(c))
		return err_set(e, "only transformers' models are run, with PyTorch or DeepSpeed");
	if (!c->model_file &&
	    !(config_has(c, CONFIG_num_layers) && config_has(c, CONFIG_hidden_size) &&
	      config_has(c, CONFIG_vocab_size)))
		return err_set(e, "a model is run from its config.json: --config FILE");
	return check_fields(c, e) || check_values(c, e) ? -1 : 0;
}
