/* The processes of a directory as text: two lines of summary, a line of titles, a line for each
 * row. */
#ifndef MEMTRACE_TOP_FRAME_TEXT_H
#define MEMTRACE_TOP_FRAME_TEXT_H

#include "live/rows.h"
#include "render/page.h"

/* The numbers of running and other processes; the row that needs attention; the scale of the
 * bar. Three lines. */
#define FRAME_HEAD_LINES 3
void frame_head(struct page *p, const struct folder *f, const struct process_row *rows,
		size_t count);
/* The titles of the columns. As many columns as the page is wide enough for. */
void frame_titles(struct page *p, enum row_order order);
void frame_row(struct page *p, const struct process_row *r);

/* All of it. */
void frame_text(struct page *p, const struct folder *f, const struct row_choice *c);

/* The bar of a device's memory, `room` columns wide. */
void frame_bar(struct page *p, const struct live_device *d, size_t room);

#endif
