/* A diff as JSON. */
#ifndef MEMTRACE_DIFF_JSON_H
#define MEMTRACE_DIFF_JSON_H

#include "util/buf.h"
#include "diff/diff.h"

/* `is_over`: a peak exceeds the limit; used only if `has_limit`, which is 0 too if that is not
 * known. */
void diff_json(const struct diff *c, int has_limit, int is_over, struct buf *out);

#endif
