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
/* The field whose name is most like `name`, for messages; NULL: none is. */
const char *config_near_name(const char *name);
/* The value as text: "4096", "true", "bf16-mixed". */
void config_value(const struct config *c, enum config_field f, struct buf *out);

/* Nobody reads hundreds of remarks: the last says that there are more. */
#define NOTES_MOST 200
int config_notes_full(const struct config *c);
/* Remembers a remark, once. */
__attribute__((format(printf, 2, 3))) void config_note(struct config *c, const char *format, ...);

/* Sets a field from text. `key` is the name that the user wrote, for the message. ORIGIN is copied.
 * -1: VALUE is malformed; the message names key, value, origin and what was expected. */
int config_set_field(struct config *c, int field, const char *key, const char *value,
		     const char *origin, struct err *e);
/* The same for a field that is not given yet. */
int config_set_default(struct config *c, int field, const char *value, const char *origin,
		       struct err *e);
/* A field that follows from others; config_derive() unsets it before it derives again. */
void config_derived_int(struct config *c, int field, int64_t value, const char *how);
void config_derived_text(struct config *c, int field, const char *value, const char *how);
/* A field that DeepSpeed leaves to Transformers ("auto"): config_derive() resolves it or adds a
 * note. */
void config_set_auto(struct config *c, int field, const char *origin);

/* 1: true, 0: false, -1: neither; "yes", "on" ... included. */
int parse_bool(const char *text);

#endif
