#include "render/categories_text.h"
#include "util/order.h"

#include <stdlib.h>

#define BAR_ROOM 40 /* columns */

struct category_line {
	enum category category;
	bytes bytes;
};

static int by_bytes(const void *a, const void *b)
{
	const struct category_line *x = a, *y = b;

	if (x->bytes != y->bytes)
		return ORDER(y->bytes, x->bytes);
	return ORDER(x->category, y->category);
}

static void put_line(struct page *p, const struct category_line *line, bytes total)
{
	double share = (double)line->bytes / (double)total;
	int size_width = p->style->raw_bytes ? 20 : 10;
	size_t used = (size_t)(PAGE_ROW + size_width + 8) + CATEGORY_WIDTH + 2,
	       room = (size_t)p->style->width;
	struct buf size = { 0 };

	page_size(p, &size, line->bytes);
	buf_addf(p->out, "%*s%*s %3.0f %%  ", PAGE_ROW, "", size_width, size.text, 100 * share);
	buf_release(&size);
	if (used + 4 > room) {
		buf_addf(p->out, "%s\n", category_title(line->category));
		return;
	}
	buf_addf(p->out, "%-*s  ", CATEGORY_WIDTH, category_title(line->category));
	room -= used;
	page_share(p, category_ansi(line->category), share, room < BAR_ROOM ? room : BAR_ROOM);
	buf_puts(p->out, "\n");
}

void put_categories(struct page *p, const struct rank *r)
{
	struct category_line lines[CATEGORIES];
	bytes total = r->peak.unrecorded && r->stacks.bytes < r->peak_allocated ? r->stacks.bytes
										: r->peak_allocated;
	struct buf b = { 0 };

	if (total <= 0)
		return;
	for (enum category c = 0; c < CATEGORIES; c++)
		lines[c] = (struct category_line){ c, r->peak.by_category[c] };
	/* bytes that only the running counters have are in no category */
	lines[CATEGORY_OTHER].bytes -= r->peak_allocated - total;
	qsort(lines, CATEGORIES, sizeof(*lines), by_bytes);
	buf_addf(&b, "tensors at the %s, ", r->peak.unrecorded ? MOMENT_IN_TRACE : "peak");
	page_size(p, &b, total);
	page_field(p, "by category", b.text, 0);
	buf_release(&b);
	for (size_t i = 0; i < CATEGORIES && lines[i].bytes > 0; i++)
		put_line(p, &lines[i], total);
}
