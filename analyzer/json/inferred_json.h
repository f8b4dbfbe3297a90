/* An inferred configuration as JSON, and as a file. */
#ifndef MEMTRACE_INFERRED_JSON_H
#define MEMTRACE_INFERRED_JSON_H

#include "infer/inferred.h"

#include <jansson.h>

/* Sets "inferred", "not_told" and "given" of `root`; `c` is the configuration with all of them. */
void inferred_json(const struct inferred_config *i, const struct config *c, json_t *root);

/* Adds the configuration as a file for --config: one flat JSON object, without derived values. */
void inferred_file(const struct config *c, struct buf *out);

#endif
