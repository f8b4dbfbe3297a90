/* Parts of models, by the names that the source of a job gives them. */
#ifndef MEMTRACE_MODEL_PARTS_H
#define MEMTRACE_MODEL_PARTS_H

#include "source/python_file.h"

#define MODEL_PARTS 32

struct model_part {
	struct str name;  /* in the text of a file */
	struct str owner; /* the name before it; empty: none */
	int is_attribute; /* of an object: "head" in model.head; else a variable */
};

struct model_parts {
	struct model_part list[MODEL_PARTS];
	size_t count;
};

/* Returns 0 if there is no place for it. A part that is there already is not added again. */
int model_parts_add(struct model_parts *parts, struct model_part part);
int model_parts_has(const struct model_parts *parts, struct str name, int is_attribute);
/* The place of a call of a part in `text` from `from` on: of the part itself, or of a method that
 * is no setting; text.length: there is none. */
size_t model_parts_find_call(const struct model_parts *parts, struct str text, size_t from);

#endif
