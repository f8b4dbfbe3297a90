/* Parts of a report's text: what a rank, a stack and a moment are called; requests that failed. */
#ifndef MEMTRACE_REPORT_PARTS_H
#define MEMTRACE_REPORT_PARTS_H

#include "render/page.h"
#include "report/report.h"

/* "rank 0 of 2 (tp 0) gpu 1", or the process of a trace without ranks. */
void words_add_rank(struct buf *b, const struct rank *r);
/* The place of a stack. A block of the backward pass has no line of its own. */
void words_add_label(struct buf *b, const struct stack_row *row);
/* " (in function file:line)" for the innermost frame, or without the file, or nothing, so that it
 * fits into `room` columns. */
void words_add_inner(struct buf *b, const struct stack_row *row, size_t room);
/* "12 × 288.0 MiB", or "12 blocks" if sizes differ. */
void words_add_blocks(struct page *p, struct buf *b, const struct stack_row *row);
/* "step 1, forward: loss", or the part of it that is known; "decode" of a job that only infers. */
void words_add_moment(struct buf *b, const struct rank *r, const struct point *when);

/* The used memory of a device, as parts that add up. */
struct shares {
	bytes tensors, cached, outside, used;
};
struct shares shares_of(const struct point *when, bytes total, bytes free_bytes);

/* The last failures of a rank, newest first; the diagnosis is with the newest. */
void oom_text(struct page *p, const struct rank *r, const struct report *report);
/* The rank that failed last and the moment, in one line; for a rank that has a failure. */
void oom_text_line(const struct rank *r, struct buf *b);
/* The other ranks that ran out of memory, beside the one that is shown. */
void oom_text_others(struct page *p, const struct report *report, const struct rank *worst);

#endif
