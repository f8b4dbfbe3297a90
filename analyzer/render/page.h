/* The pieces that text pages are made of: fields, bars, sparklines, colour. */
#ifndef MEMTRACE_PAGE_H
#define MEMTRACE_PAGE_H

#include "util/buf.h"
#include "util/size.h"
#include "util/terminal.h"

#define PAGE_INDENT 12 /* where a text begins, beside its label */
#define PAGE_ROW 4     /* where the rows of a table below a label begin */

enum paint {
	PAINT_NONE,
	PAINT_BOLD,
	PAINT_ALARM,
	PAINT_WARNING,
	PAINT_TENSORS,
	PAINT_CACHED,
	PAINT_OUTSIDE,
	PAINT_FREE
};

struct page {
	struct buf *out;
	const struct style *style;
};

void page_paint(struct page *p, enum paint paint, const char *text);
/* A bar of `share` of `room` columns in an ANSI colour; at least one column if the share is not 0.
 */
void page_share(struct page *p, const char *ansi, double share, size_t room);
/* A space at which page_field() does not break the line. */
#define PAGE_HARD_SPACE "\001"
/* Used if the peak itself is known from counters only. */
#define MOMENT_IN_TRACE "highest moment in the trace"

/* A label and a text that wraps beside it, over at most `lines` lines (0: any number). */
void page_field(struct page *p, const char *label, const char *text, int lines);
/* Two texts on one line if they fit, else on two. */
void page_pair(struct page *p, enum paint paint, const char *strong, const char *left,
	       const char *right);

struct bar_part {
	const char *name;
	bytes bytes;
	enum paint paint;
};
/* A bar of at most four parts with a legend. Parts differ by character, name and colour. */
void page_bar(struct page *p, const char *label, const struct bar_part *parts, size_t count);
/* "14.1 GiB", or "unknown". */
void page_size(struct page *p, struct buf *b, bytes size);

/* `values` as blocks, the largest of each column, scaled to `top`, in at most `room` columns. */
void page_curve(struct page *p, const bytes *values, size_t count, bytes top, size_t room);
/* `values` as one line of blocks, the largest of each column, scaled to `top`. */
void page_sparkline(struct page *p, const char *label, const bytes *values, size_t count,
		    bytes top);

/* The multiplication sign. */
const char *page_times(const struct page *p);

#endif
