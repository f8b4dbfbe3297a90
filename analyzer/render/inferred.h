/* What was inferred of a configuration, for people and for programs. */
#ifndef MEMTRACE_RENDER_INFERRED_H
#define MEMTRACE_RENDER_INFERRED_H

#include "infer.h"

#include <jansson.h>

void inferred_text(const struct inference *i, struct buf *out);
/* Sets "inferred" and "not_told" of `root`. */
void inferred_json(const struct inference *i, json_t *root);

#endif
