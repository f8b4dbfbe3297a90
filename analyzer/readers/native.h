/*
 * The native format: one JSON object whose keys are the fields of fields.def, or arguments of
 * Megatron-LM in snake case; and single values, --set KEY=VALUE.
 */
#ifndef MEMTRACE_NATIVE_H
#define MEMTRACE_NATIVE_H

#include "readers/reader.h"

/* Sets the field or Megatron argument NAME from text. ORIGIN is copied. -1: no such key, or VALUE
 * is malformed; the message names key, value, origin and what was expected. */
int config_set(struct config *c, const char *name, const char *value, const char *origin,
	       struct err *e);

int config_read_native(struct reader *r, const struct doc_node *root, const char *name);

#endif
