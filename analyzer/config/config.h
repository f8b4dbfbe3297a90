/*
 * The declared configuration of a job: one flat set of fields (fields.def), each knowing whether it
 * was given and from where. Sizes are counts; nothing is implied by a unit. A field that nobody
 * gave is absent, not zero; defaults are the systems' own.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

/* fields.def: FIELD(name, TYPE, help). TYPE: INT (int64_t), REAL (double), BOOL (int), TEXT (char
 * *) */
struct buf;

enum config_field {
#define FIELD(name, type, help) CONFIG_##name,
#include "config/fields.def"
#undef FIELD
	CONFIG_FIELDS
};

#define CONFIG_TYPE_INT int64_t
#define CONFIG_TYPE_REAL double
#define CONFIG_TYPE_BOOL int
#define CONFIG_TYPE_TEXT char *

struct config {
	/* A framework's own file or command line was read: config_derive then refuses layouts that
	 * do not divide, as the framework would. */
	int from_framework;
	/* where a DeepSpeed configuration says "auto"; NULL: nowhere */
	char *automatic[CONFIG_FIELDS];
#define FIELD(name, type, help) CONFIG_TYPE_##type name;
#include "config/fields.def"
#undef FIELD
	/* "model.json:12", "--num-layers", "derived: …", "--set"; NULL: not given */
	char *origin[CONFIG_FIELDS];
	/* unknown keys that could matter and other remarks, for "notes" */
	char **notes;
	unsigned note_count;
};

static inline int config_has(const struct config *c, enum config_field f)
{
	return c->origin[f] != NULL;
}

/* Given by nobody but worked out by config_derive: num_parameters of a config.json,
 * data_parallel_size of a world_size … */
int config_is_derived(const struct config *c, enum config_field f);

void config_init(struct config *c);
void config_release(struct config *c);
/* `to` is released first; it must have been initialised. */
void config_copy(struct config *to, const struct config *from);

/* One field from a number, for those who vary a layout; the field's limits hold. */
int config_set_int(struct config *c, enum config_field f, int64_t value, const char *origin,
		   struct err *e);
void config_unset(struct config *c, enum config_field f);

const char *config_name(enum config_field f);
const char *config_help(enum config_field f);
/* "INT", "REAL", "BOOL", "TEXT" */
const char *config_type(enum config_field f);
/* The field of that name, or -1. */
int config_find(const char *name);
/* The value as text: "4096", "true", "bf16-mixed". */
void config_value(const struct config *c, enum config_field f, struct buf *out);

/* Nobody reads hundreds of remarks: the last says that there are more. */
#define NOTES_MOST 200
int config_notes_full(const struct config *c);
/* Remembers a remark, once. */
__attribute__((format(printf, 2, 3))) void config_note(struct config *c, const char *format, ...);

/* Sets NAME to VALUE as text (`--set K=V`). ORIGIN is copied. -1: no such key, or VALUE is
 * malformed; the message names key, value, origin and what was expected. */
int config_set(struct config *c, const char *name, const char *value, const char *origin,
	       struct err *e);

/* Reads a file of any known kind (our JSON, config.json, ds_config.json, Accelerate YAML,
 * Megatron's YAML). Later wins. */
int config_read_file(struct config *c, const char *path, struct err *e);

/* Reads a job's command line (argv as after `--`) and environment ("K=V" strings): Megatron,
 * DeepSpeed, Accelerate, torchtitan, Trainer arguments. */
int config_read_command(struct config *c, int argc, char **argv, char **env, unsigned env_count,
			struct err *e);

/* Do the parallel sizes divide what they split? The message names both. */
int config_check_layout(const struct config *c, struct err *e);

/* Has layer `layer` (from 0) experts, by num_experts and moe_layer_freq? */
int config_moe_layer(const struct config *c, int64_t layer);

/* Parameters of the whole model counted from the architecture's fields, those that are not given
 * by `arch`, and the most that one module holds directly. -1: a field is missing. config_derive
 * calls it where model_type is given. */
int config_count_parameters(const struct config *c, int64_t *total, int64_t *largest,
			    struct err *e);

/* Derives what follows from what is given, again after a change (data_parallel_size from
 * world_size, padded vocabulary …) and checks contradictions. */
int config_derive(struct config *c, struct err *e);

/* Key, value, source, one a line; the remarks after them. */
void config_show(const struct config *c, struct buf *out);
/* {"config":[{"key":…,"value":…,"source":…}],"notes":[…]} */
void config_show_json(const struct config *c, struct buf *out);

#endif
