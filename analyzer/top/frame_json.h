/* The processes of a directory as one JSON object. */
#ifndef MEMTRACE_TOP_FRAME_JSON_H
#define MEMTRACE_TOP_FRAME_JSON_H

#include "live/rows.h"
#include "util/buf.h"

/* On one line, with its end. */
void frame_json(const struct folder *f, const struct row_choice *c, struct buf *out);

#endif
