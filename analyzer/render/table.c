#include "render/table.h"

#include <stdlib.h>

#define BETWEEN 2   /* spaces */
#define NARROWEST 8 /* columns that a cut text keeps at least */

void table_cell(struct table *t, enum paint paint, const char *text)
{
	t->cells = grow(t->cells, t->cell_count, &t->room, sizeof(*t->cells));
	t->paints = grow(t->paints, t->cell_count, &t->paint_room, sizeof(*t->paints));
	t->cells[t->cell_count] = xstrdup(text ? text : "");
	t->paints[t->cell_count++] = paint;
}

/* 0: the column has no text. */
static size_t width_of(const struct table *t, size_t column)
{
	size_t most = 0, title = utf8_width(t->columns[column].title);

	for (size_t i = column; i < t->cell_count; i += t->column_count) {
		size_t n = utf8_width(t->cells[i]);

		most = n > most ? n : most;
	}
	return most && title > most ? title : most;
}

static void cut_columns(const struct table *t, size_t over, size_t widths[TABLE_COLUMNS])
{
	for (size_t c = 0; c < t->column_count; c++)
		if (t->columns[c].cut && widths[c] > NARROWEST) {
			size_t least = widths[c] > over ? widths[c] - over : 0;

			widths[c] = least > NARROWEST ? least : NARROWEST;
			return;
		}
}

/* Widths of the columns that are shown, 0 for the others. */
static void choose(const struct table *t, size_t room, size_t widths[TABLE_COLUMNS])
{
	size_t total = 0;

	for (size_t c = 0; c < t->column_count; c++) {
		widths[c] = width_of(t, c);
		total += widths[c] ? widths[c] + BETWEEN : 0;
	}
	while (total > room + BETWEEN) {
		size_t out = t->column_count;

		for (size_t c = 0; c < t->column_count; c++)
			if (widths[c] && t->columns[c].rank &&
			    (out == t->column_count || t->columns[c].rank > t->columns[out].rank))
				out = c;
		if (out == t->column_count) {
			cut_columns(t, total - room - BETWEEN, widths);
			return;
		}
		total -= widths[out] + BETWEEN;
		widths[out] = 0;
	}
}

/* The first columns of a text, and a mark. */
static char *cut_text(const struct page *p, const char *text, size_t width)
{
	size_t n = 0, columns = 0;

	while (text[n] && (utf8_continues(text[n]) || columns++ < width - 1))
		n++;
	return xasprintf("%.*s%s", (int)n, text, p->style->unicode ? "\xe2\x80\xa6" : "~");
}

/* `due` spaces are printed only before a text, so that no line ends with spaces. */
static void put_cell(struct page *p, const struct column *c, const char *text, size_t width,
		     size_t *due, enum paint paint)
{
	size_t own = utf8_width(text), pad = own < width ? width - own : 0;
	char *cut = own > width ? cut_text(p, text, width) : NULL;

	if (c->align == ALIGN_RIGHT)
		*due += pad;
	if (*text) {
		buf_addf(p->out, "%*s", (int)*due, "");
		*due = 0;
		page_paint(p, paint, cut ? cut : text);
	}
	free(cut);
	*due += (c->align == ALIGN_LEFT ? pad : 0) + BETWEEN;
}

static void table_release(struct table *t)
{
	for (size_t i = 0; i < t->cell_count; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->paints);
	t->cells = NULL;
	t->paints = NULL;
	t->cell_count = t->room = t->paint_room = 0;
}

void table_put(struct page *p, struct table *t)
{
	size_t widths[TABLE_COLUMNS], due = 0;

	choose(t, (size_t)p->style->width, widths);
	for (size_t c = 0; c < t->column_count; c++)
		if (widths[c])
			put_cell(p, &t->columns[c], t->columns[c].title, widths[c], &due,
				 PAINT_BOLD);
	for (size_t i = 0; t->column_count && i < t->cell_count; i++) {
		size_t c = i % t->column_count;

		if (!c) {
			buf_puts(p->out, "\n");
			due = 0;
		}
		if (widths[c])
			put_cell(p, &t->columns[c], t->cells[i], widths[c], &due, t->paints[i]);
	}
	buf_puts(p->out, "\n");
	table_release(t);
}
