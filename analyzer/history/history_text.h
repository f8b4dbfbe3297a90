/* The history of runs as text. */
#ifndef MEMTRACE_HISTORY_TEXT_H
#define MEMTRACE_HISTORY_TEXT_H

#include "history/trend.h"
#include "render/page.h"

void history_list_text(const struct history_run *runs, size_t count, const struct style *style,
		       struct buf *out);

/* `other`: the newest run of the same job, simulated if `r` is not, or NULL. */
void history_show_text(const struct history_run *r, const struct history_run *other,
		       const struct style *style, struct buf *out);

void history_compare_text(const struct history_run *a, const struct history_run *b,
			  const struct style *style, struct buf *out);

void history_trend_text(const struct job_trend *trends, size_t count, int days,
			const struct style *style, struct buf *out);

/* "12 runs of this configuration used 1.031 of the estimate …"; or that there are none. */
void correction_add(struct buf *out, const struct correction *c, const char *path);

#endif
