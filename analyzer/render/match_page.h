/* What `memtrace match` prints. */
#ifndef MEMTRACE_RENDER_MATCH_H
#define MEMTRACE_RENDER_MATCH_H

#include "buf.h"
#include "match.h"
#include "term.h"

void match_json(const struct matches *m, struct buf *out);
void match_text(const struct matches *m, const struct style *style, struct buf *out);

#endif
