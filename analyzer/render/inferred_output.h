/* An inferred configuration as text, as JSON, and as a file. */
#ifndef MEMTRACE_RENDER_INFERRED_H
#define MEMTRACE_RENDER_INFERRED_H

#include "infer/inferred.h"

#include <jansson.h>

void inferred_text(const struct inferred_config *i, struct buf *out);
/* Sets "inferred", "not_told" and "given" of `root`; `c` is the configuration with all of them. */
void inferred_json(const struct inferred_config *i, const struct config *c, json_t *root);

/* Adds the configuration as a file for --config: one flat JSON object, without derived values. */
void inferred_file(const struct config *c, struct buf *out);

#endif
