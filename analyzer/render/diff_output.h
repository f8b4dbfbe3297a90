/* A diff as text and as JSON. */
#ifndef MEMTRACE_RENDER_DIFF_H
#define MEMTRACE_RENDER_DIFF_H

#include "util/buf.h"
#include "diff/diff.h"
#include "util/terminal.h"

/* `over`: the peaks that exceed the limit, "": none does; NULL: there is no limit. */
void diff_text(const struct diff *c, const char *over, const struct style *style, struct buf *out);
void diff_json(const struct diff *c, int has_limit, int is_over, struct buf *out);

#endif
