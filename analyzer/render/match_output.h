/* A match as text and as JSON. */
#ifndef MEMTRACE_RENDER_MATCH_H
#define MEMTRACE_RENDER_MATCH_H

#include "util/buf.h"
#include "match/match.h"
#include "util/terminal.h"

void match_json(const struct matches *m, struct buf *out);
void match_text(const struct matches *m, const struct style *style, struct buf *out);

#endif
