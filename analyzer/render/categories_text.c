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

/* ---- phases and moments that the job named ---- */

#define NAMED_SHOWN 12 /* phases, and moments */

static unsigned depth_of(const struct named_row *row)
{
	unsigned depth = 0;

	for (; row->within && depth < NAMED_DEPTH; row = row->within)
		depth++;
	return depth;
}

/* Outer phases first: NVTX may name every operator within them. */
static int by_depth_and_peak(const void *a, const void *b)
{
	const struct named_row *const *x = a, *const *y = b;
	unsigned depth_x = depth_of(*x), depth_y = depth_of(*y);

	if (depth_x != depth_y)
		return depth_x < depth_y ? -1 : 1;
	if ((*x)->peak != (*y)->peak)
		return (*x)->peak < (*y)->peak ? 1 : -1;
	return (*x > *y) - (*x < *y);
}

static void put_phase(struct page *p, const struct named_row *row)
{
	struct buf b = { 0 };

	page_size(p, &b, row->peak);
	buf_puts(&b, "  ");
	named_add_path(row, &b);
	if (row->times > 1)
		buf_addf(&b, ", %llu times", (unsigned long long)row->times);
	page_field(p, "", b.text, 0);
	buf_release(&b);
}

/* The outermost phases, and of one depth those with the highest peaks. */
static void put_phases(struct page *p, const struct rank *r)
{
	const struct named_row **rows = xcalloc(r->named_count, sizeof(*rows));
	size_t shown = r->named_count < NAMED_SHOWN ? r->named_count : NAMED_SHOWN;
	struct buf b = { 0 };

	for (size_t i = 0; i < r->named_count; i++)
		rows[i] = &r->named[i];
	if (r->named_count)
		qsort(rows, r->named_count, sizeof(*rows), by_depth_and_peak);
	if (r->named_count) {
		buf_addf(&b, "%zu that the job named; most in tensors while each was open:",
			 r->named_count);
		page_field(p, "phases", b.text, 0);
	}
	for (size_t i = 0; i < shown; i++)
		put_phase(p, rows[i]);
	buf_release(&b);
	if (r->named_count > shown) {
		buf_addf(&b, "%zu more, within these or smaller", r->named_count - shown);
		page_field(p, "", b.text, 0);
	}
	buf_release(&b);
	free(rows);
}

static void put_moments(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < r->moment_count && i < NAMED_SHOWN; i++) {
		const struct moment_row *m = &r->moments[i];

		buf_addf(&b, "%.2f s  %s: ", m->time_s, m->name);
		page_size(p, &b, m->allocated);
		buf_puts(&b, " in tensors, before it up to ");
		page_size(p, &b, m->peak);
		page_field(p, i ? "" : "marks", b.text, 0);
		buf_release(&b);
	}
	if (r->moment_count > NAMED_SHOWN) {
		buf_addf(&b, "%zu later ones", r->moment_count - NAMED_SHOWN);
		page_field(p, "", b.text, 0);
	}
	buf_release(&b);
}

void put_marks(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	put_phases(p, r);
	put_moments(p, r);
	if (r->named_left_out) {
		buf_addf(&b, "%llu phases or marks beyond what is kept are left out",
			 (unsigned long long)r->named_left_out);
		page_field(p, "note", b.text, 0);
	}
	buf_release(&b);
}
