#include "render/diff_text.h"

#include "render/page.h"
#include "render/report_parts.h"
#include "render/table.h"

#include <stdlib.h>
#include <string.h>

static const char *const titles[DIFF_KINDS] = {
	[DIFF_PEAK] = "peak",
	[DIFF_CATEGORY] = "at the peak, by category",
	[DIFF_OWNER] = "at the device's peak, by owner",
	[DIFF_PHASE] = "most in a phase",
	[DIFF_STACK] = "at the peak, by stack",
	[DIFF_CONFIG] = "configuration",
};

static void put_side(struct page *p, const char *label, const struct diff_side *s)
{
	const struct rank *r = s->ranks[0];
	struct buf b = { 0 };

	buf_addf(&b, "run %s:%d, ", r->run_id, r->restart_count == NO_RANK ? 0 : r->restart_count);
	if (r->rank == NO_RANK)
		buf_addf(&b, "process %u", r->pid);
	else
		buf_addf(&b, "rank %d of %d", r->rank, r->world_size);
	if (r->coordinates)
		buf_addf(&b, " (%s)", r->coordinates);
	if (s->count > 1)
		buf_addf(&b, ", and %zu more %s", s->count - 1, s->count > 2 ? "runs" : "run");
	if (r->simulated)
		buf_puts(&b, ", simulated");
	if (r->peak_of != PEAK_OF_JOB)
		buf_addf(&b, ", peaks %s", peak_scope_title(r->peak_of));
	buf_addf(&b, "  %s", r->trace);
	page_field(p, label, b.text, 0);
	buf_release(&b);
}

/* That a job ran out of memory: what it would have needed later is not in its figures. */
static void put_failed(struct page *p, const char *label, const struct diff_side *s)
{
	size_t failed;
	const struct rank *first = diff_side_failed(s, &failed);
	struct buf b = { 0 };

	if (!first)
		return;
	if (s->count > 1)
		buf_addf(&b, "%zu of %zu runs: ", failed, s->count);
	oom_text_line(first, &b);
	buf_puts(&b, "; asked ");
	page_size(p, &b, rank_oom(first)->requested);
	buf_addf(&b, "; the figures of %s end there", label);
	page_field(p, "", b.text, 0);
	buf_release(&b);
}

/* "+1.2 GiB" */
static void add_change(struct page *p, struct buf *b, bytes change)
{
	buf_puts(b, change < 0 ? "-" : "+");
	page_size(p, b, change < 0 ? -change : change);
}

/* Adds nothing for less than half a percent. */
static void add_percent(struct buf *b, double percent)
{
	if (percent >= 0.5 || percent <= -0.5)
		buf_addf(b, "%+.0f %%", percent);
}

static enum paint paint_of(bytes change)
{
	return change > 0 ? PAINT_WARNING : change < 0 ? PAINT_TENSORS : PAINT_NONE;
}

/* Adds the range of the runs of a side. */
static void add_spread(struct page *p, struct buf *b, const struct diff_item *i)
{
	for (int s = 0; s < SIDES; s++)
		if (i->side[s].most != i->side[s].least) {
			buf_addf(b, "%s%s ", b->length ? ", " : "", s == SIDE_A ? "A" : "B");
			page_size(p, b, i->side[s].least);
			buf_puts(b, " to ");
			page_size(p, b, i->side[s].most);
		}
}

static void add_title(struct buf *b, const struct diff_item *i)
{
	buf_puts(b, i->title);
	if (!i->stack)
		return;
	words_add_label(b, i->stack);
	words_add_inner(b, i->stack, SIZE_MAX);
}

static void add_row(struct page *p, struct table *t, const struct diff_item *i)
{
	bytes change = diff_item_change(i), a = i->side[SIDE_A].median;
	struct buf cells[6] = { { 0 } };

	page_size(p, &cells[0], a);
	page_size(p, &cells[1], i->side[SIDE_B].median);
	if (change) {
		add_change(p, &cells[2], change);
		if (a > 0)
			add_percent(&cells[3], 100.0 * (double)change / (double)a);
	}
	add_title(&cells[4], i);
	add_spread(p, &cells[5], i);
	for (size_t k = 0; k < ARRAY_SIZE(cells); k++) {
		table_cell(t, k == 2 && i->is_changed ? paint_of(change) : PAINT_NONE,
			   cells[k].text);
		buf_release(&cells[k]);
	}
}

static int is_shown(const struct diff_item *i)
{
	return i->kind == DIFF_PEAK || i->is_changed;
}

static void put_kind(struct page *p, const struct diff_item *items, size_t count)
{
	static const struct column columns[] = {
		{ .title = "A", .align = ALIGN_RIGHT },
		{ .title = "B", .align = ALIGN_RIGHT },
		{ .title = "change", .align = ALIGN_RIGHT },
		{ .title = "", .align = ALIGN_RIGHT, .rank = 1 },
		{ .title = "", .cut = 1 },
		{ .title = "runs", .rank = 2 },
	};
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };
	size_t shown = 0, left = 0;
	bytes rest = 0;

	for (size_t i = 0; i < count; i++) {
		if (!is_shown(&items[i]))
			continue;
		if (shown < (size_t)p->style->top || items[i].kind != DIFF_STACK) {
			add_row(p, &t, &items[i]);
			shown++;
		} else {
			rest = bytes_add(rest, diff_item_change(&items[i]));
			left++;
		}
	}
	if (!shown)
		return;
	buf_puts(p->out, "\n");
	page_paint(p, PAINT_BOLD, titles[items->kind]);
	buf_puts(p->out, "\n");
	table_put(p, &t);
	if (left) {
		struct buf b = { 0 };

		buf_addf(&b, "%zu more stacks, together ", left);
		add_change(p, &b, rest);
		page_field(p, "", b.text, 0);
		buf_release(&b);
	}
}

static void put_config(struct page *p, const struct diff_item *items, size_t count)
{
	buf_puts(p->out, "\n");
	page_paint(p, PAINT_BOLD, titles[DIFF_CONFIG]);
	buf_puts(p->out, "\n");
	for (size_t i = 0; i < count; i++) {
		const char *a = items[i].side[SIDE_A].text, *b = items[i].side[SIDE_B].text;
		struct buf line = { 0 }, safe = { 0 };

		buf_addf(&line, "%s: %s -> %s", items[i].title,
			 !a   ? "(not given)"
			 : *a ? a
			      : "given",
			 !b   ? "(not given)"
			 : *b ? b
			      : "given");
		buf_add_clean(&safe, (struct str){ line.text, line.length });
		page_field(p, "", safe.text, 3);
		buf_release(&line);
		buf_release(&safe);
	}
}

/* If both jobs have the same ranks: the rank that grew most, unless it is the one compared. */
static void put_grown(struct page *p, const struct diff *c)
{
	const struct report *a = &c->side[SIDE_A].runs[0]->report,
			    *b = &c->side[SIDE_B].runs[0]->report;
	const struct rank *most = NULL;
	struct buf text = { 0 };
	bytes change = 0;

	if (a->count != b->count || !a->as_job || !b->as_job)
		return;
	for (size_t i = 0; i < a->count; i++) {
		bytes n = b->ranks[i].peak_allocated - a->ranks[i].peak_allocated;

		if (a->ranks[i].rank == b->ranks[i].rank && n > change) {
			change = n;
			most = &b->ranks[i];
		}
	}
	if (!most || most == c->side[SIDE_B].ranks[0])
		return;
	buf_addf(&text, "tensors of rank %d grew most: ", most->rank);
	add_change(p, &text, change);
	buf_addf(&text, "; memtrace diff --rank %d shows it", most->rank);
	page_field(p, "ranks", text.text, 0);
	buf_release(&text);
}

static void put_limit(struct page *p, const char *over, const char *unknown)
{
	if (!over)
		return;
	buf_puts(p->out, "\n");
	if (unknown)
		page_field(p, "?", unknown, 0);
	else
		page_field(p, *over ? "OVER" : "ok", *over ? over : "no peak grew past the limit",
			   0);
}

void diff_sides_text(const struct diff *c, const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };

	put_side(&p, "A", &c->side[SIDE_A]);
	put_failed(&p, "A", &c->side[SIDE_A]);
	put_side(&p, "B", &c->side[SIDE_B]);
	put_failed(&p, "B", &c->side[SIDE_B]);
	put_grown(&p, c);
}

void diff_text(const struct diff *c, const char *over, const char *unknown,
	       const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	int changes = 0;

	diff_sides_text(c, style, out);
	for (size_t i = 0, end; i < c->count; i = end) {
		for (end = i; end < c->count && c->items[end].kind == c->items[i].kind; end++)
			changes |= c->items[end].is_changed;
		if (c->items[i].kind == DIFF_CONFIG)
			put_config(&p, &c->items[i], end - i);
		else
			put_kind(&p, &c->items[i], end - i);
	}
	if (!changes)
		buf_puts(out, "\nnothing changed\n");
	put_limit(&p, over, unknown);
}
