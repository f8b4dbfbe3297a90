/* A report as text and as JSON. Renderers read the report only, never a trace, and write into
 * memory. */
#ifndef MEMTRACE_RENDER_H
#define MEMTRACE_RENDER_H

#include "util/buf.h"
#include "report/report.h"
#include "util/terminal.h"

void render_text(const struct report *report, const struct style *style, struct buf *out);
/* The table of all diagnosis rules. */
void render_rules(const struct style *style, struct buf *out);
void render_json(const struct report *report, struct buf *out);

#endif
