/*
 * The declared configuration of a job: one flat set of fields (fields.def). Every field records
 * whether it is given and by which source. Sizes are counts. A field that is not given is absent,
 * not zero: each system of estimates has its own defaults.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "util/err.h"

struct buf;

/* fields.def: FIELD(name, TYPE, help). TYPE: INT (int64_t), REAL (double), BOOL (int), TEXT (char
 * *) */
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
	/* 1: a framework's own file or command line was read. config_derive() then rejects layouts
	 * that do not divide, as the framework does. */
	int from_framework;
	/* Origin of DeepSpeed's value "auto" for a field; NULL: it is not "auto". */
	char *automatic[CONFIG_FIELDS];
#define FIELD(name, type, help) CONFIG_TYPE_##type name;
#include "config/fields.def"
#undef FIELD
	/* Source of a field: "model.json:12", "--num-layers", "derived: ...", "--set"; NULL: the
	 * field is not given. */
	char *origin[CONFIG_FIELDS];
	/* The Hugging Face file of the model, if one was read from a path; else NULL. */
	char *model_file;
	int is_language_part; /* the fields are those of the language model in it */
	/* Remarks for the reader of an answer: unknown keys that could matter, and so on. */
	char **notes;
	unsigned note_count;
};

static inline int config_has(const struct config *c, enum config_field f)
{
	return c->origin[f] != NULL;
}

/* Is the field derived from others by config_derive()? For example data_parallel_size from
 * world_size. */
int config_is_derived(const struct config *c, enum config_field f);

void config_init(struct config *c);
void config_release(struct config *c);
/* Copies `from`. `to` must be initialised; its own content is released. */
void config_copy(struct config *to, const struct config *from);

/* Remembers the file of the model; NULL: forgets it. */
void config_set_model_file(struct config *c, const char *path);

/* Sets a field from a number. -1: the number is outside the field's limits. */
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
/* Appends the value as text: "4096", "true", "bf16-mixed"; nothing if the field is not given. */
void config_value(const struct config *c, enum config_field f, struct buf *out);

/* The last note that is kept says that there are more. */
#define MAX_NOTES 200
int config_notes_full(const struct config *c);
/* Adds a note, unless the same note is there already. */
__attribute__((format(printf, 2, 3))) void config_note(struct config *c, const char *format, ...);

/* Sets a field from text. `key` is the name that the user wrote, for the message. ORIGIN is copied.
 * -1: VALUE is malformed; the message names key, value, origin and what was expected. */
int config_set_field(struct config *c, int field, const char *key, const char *value,
		     const char *origin, struct err *e);
/* config_set_field() if the field is not given yet. */
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
