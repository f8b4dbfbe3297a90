/* A diff as text. */
#ifndef MEMTRACE_DIFF_TEXT_H
#define MEMTRACE_DIFF_TEXT_H

#include "util/buf.h"
#include "diff/diff.h"
#include "util/terminal.h"

/* What is compared, and which rank grew most: what diff_text() says first. */
void diff_sides_text(const struct diff *c, const struct style *style, struct buf *out);
/* `over`: the peaks that exceed the limit, "": none does; NULL: there is no limit. `unknown`: why
 * that cannot be told, or NULL. */
void diff_text(const struct diff *c, const char *over, const char *unknown,
	       const struct style *style, struct buf *out);

#endif
