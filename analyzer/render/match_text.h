/* A match as text. */
#ifndef MEMTRACE_MATCH_TEXT_H
#define MEMTRACE_MATCH_TEXT_H

#include "util/buf.h"
#include "match/match.h"
#include "util/terminal.h"

void match_text(const struct matches *m, const struct style *style, struct buf *out);

#endif
