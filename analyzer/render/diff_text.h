/* A diff as text. */
#ifndef MEMTRACE_DIFF_TEXT_H
#define MEMTRACE_DIFF_TEXT_H

#include "util/buf.h"
#include "diff/diff.h"
#include "util/terminal.h"

/* The two jobs that are compared, where they ran out of memory, and the rank that grew most: the
 * first lines of diff_text(). */
void diff_sides_text(const struct diff *c, const struct style *style, struct buf *out);
/* `over`: the peaks that exceed the limit; "": none does; NULL: there is no limit. `unknown`:
 * the reason if it is not known whether one does, or NULL. */
void diff_text(const struct diff *c, const char *over, const char *unknown,
	       const struct style *style, struct buf *out);

#endif
