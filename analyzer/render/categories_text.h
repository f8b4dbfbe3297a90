/* The allocated bytes by category and by what the job named, in the text of a report. */
#ifndef MEMTRACE_RENDER_CATEGORIES_H
#define MEMTRACE_RENDER_CATEGORIES_H

#include "render/page.h"
#include "report/report.h"

/* The widest title. */
#define CATEGORY_WIDTH 16

void put_categories(struct page *p, const struct rank *r);

/* The phases and moments that the job named. */
void put_marks(struct page *p, const struct rank *r);

#endif
