/* A match as JSON. */
#ifndef MEMTRACE_MATCH_JSON_H
#define MEMTRACE_MATCH_JSON_H

#include "util/buf.h"
#include "match/match.h"

void match_json(const struct matches *m, struct buf *out);

#endif
