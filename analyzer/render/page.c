#include "render/page.h"

#include "report/report.h"

#include <string.h>

static const char *const codes[] = {
	[PAINT_NONE] = "",      [PAINT_BOLD] = "1",     [PAINT_ALARM] = "1;31",
	[PAINT_WARNING] = "33", [PAINT_TENSORS] = "34", [PAINT_CACHED] = "36",
	[PAINT_OUTSIDE] = "35", [PAINT_FREE] = "90",
};

static void open_paint(struct page *p, enum paint paint)
{
	if (p->style->color && paint)
		buf_addf(p->out, "\033[%sm", codes[paint]);
}

static void close_paint(struct page *p, enum paint paint)
{
	if (p->style->color && paint)
		buf_puts(p->out, "\033[0m");
}

void page_paint(struct page *p, enum paint paint, const char *text)
{
	if (!*text)
		return;
	open_paint(p, paint);
	buf_puts(p->out, text);
	close_paint(p, paint);
}

static enum paint label_paint(const char *label)
{
	return strcmp(label, "warning") ? PAINT_BOLD : PAINT_WARNING;
}

static size_t put_label(struct page *p, const char *label)
{
	size_t width = strlen(label);

	page_paint(p, label_paint(label), label);
	do
		buf_puts(p->out, " ");
	while (++width < PAGE_INDENT);
	return width;
}

void page_field(struct page *p, const char *label, const char *text, int lines)
{
	size_t column = put_label(p, label), room = (size_t)p->style->width;
	int line = 1, first = 1;

	while (*text) {
		size_t spaces = strspn(text, " "), n = strcspn(text + spaces, " "), width = 0;
		/* The last line keeps room for the mark of a cut text. */
		size_t kept = lines && line == lines && column + utf8_width(text) > room ? 4 : 0;

		for (size_t i = 0; i < spaces + n; i++)
			width += !utf8_continues(text[i]);
		if (!first && column + width + kept > room) {
			if (lines && line++ == lines) {
				buf_puts(p->out, p->style->unicode ? " \xe2\x80\xa6" : " ...");
				break;
			}
			buf_addf(p->out, "\n%*s", PAGE_INDENT, "");
			column = PAGE_INDENT;
			text += spaces;
			width -= spaces;
			spaces = 0;
		}
		for (size_t i = 0; i < spaces + n; i++)
			buf_add(p->out, text[i] == *PAGE_HARD_SPACE ? " " : &text[i], 1);
		column += width;
		text += spaces + n;
		first = 0;
	}
	buf_puts(p->out, "\n");
}

void page_pair(struct page *p, enum paint paint, const char *strong, const char *left,
	       const char *right)
{
	size_t width = utf8_width(strong) + utf8_width(left) + utf8_width(right);

	page_paint(p, paint, strong);
	buf_puts(p->out, left);
	if (width + 6 <= (size_t)p->style->width) {
		buf_addf(p->out, "      %s\n", right);
	} else {
		buf_puts(p->out, "\n");
		page_field(p, "", right, 0);
	}
}

static const char *mark(const struct page *p, size_t part)
{
	static const char *const unicode[] = { "\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x91",
					       "\xc2\xb7" };
	static const char *const ascii[] = { "#", "=", "+", "." };

	return (p->style->unicode ? unicode : ascii)[part % 4];
}

void page_share(struct page *p, const char *ansi, double share, size_t room)
{
	size_t columns = share <= 0 ? 0 : (size_t)(share * (double)room + 0.5);

	columns = columns > room ? room : columns < (share > 0) ? 1 : columns;
	if (p->style->color && columns)
		buf_addf(p->out, "\033[%sm", ansi);
	for (size_t i = 0; i < columns; i++)
		buf_puts(p->out, mark(p, 0));
	if (p->style->color && columns)
		buf_puts(p->out, "\033[0m");
}

/* Damaged traces can give negative sizes. */
static bytes shown_bytes(const struct bar_part *part)
{
	return part->bytes > 0 ? part->bytes : 0;
}

void page_bar(struct page *p, const char *label, const struct bar_part *parts, size_t count)
{
	size_t room = (size_t)p->style->width - PAGE_INDENT, used = 0;
	struct buf legend = { 0 };
	bytes total = 0, sum = 0;
	struct unit unit;

	for (size_t i = 0; i < count; i++)
		total += shown_bytes(&parts[i]);
	if (total <= 0)
		return;
	unit = size_unit(total, p->style->raw_bytes);
	put_label(p, label);
	for (size_t i = 0; i < count; i++) {
		size_t upto, painted;

		sum += shown_bytes(&parts[i]);
		upto = (size_t)((double)sum / (double)total * (double)room + 0.5);
		if (used < upto)
			open_paint(p, parts[i].paint);
		for (painted = used; used < upto; used++)
			buf_puts(p->out, mark(p, i));
		if (painted < upto)
			close_paint(p, parts[i].paint);
		buf_addf(&legend, "%s%s" PAGE_HARD_SPACE "%s" PAGE_HARD_SPACE, i ? "  " : "",
			 mark(p, i), parts[i].name);
		size_add_in(&legend, parts[i].bytes, unit);
		if (!i)
			buf_addf(&legend, PAGE_HARD_SPACE "%s", unit.name);
	}
	buf_puts(p->out, "\n");
	page_field(p, "", legend.text, 0);
	buf_release(&legend);
}

void page_curve(struct page *p, const bytes *values, size_t count, bytes top, size_t room)
{
	static const char *const unicode[] = { " ",
					       "\xe2\x96\x81",
					       "\xe2\x96\x82",
					       "\xe2\x96\x83",
					       "\xe2\x96\x84",
					       "\xe2\x96\x85",
					       "\xe2\x96\x86",
					       "\xe2\x96\x87",
					       "\xe2\x96\x88" };
	static const char *const ascii[] = { " ", ".", ",", ":", "-", "=", "+", "*", "#" };
	size_t columns = count < room ? count : room;

	for (size_t i = 0; i < columns; i++) {
		size_t from = i * count / columns, to = (i + 1) * count / columns;
		bytes most = 0;
		int level;

		for (; from < to; from++)
			most = values[from] > most ? values[from] : most;
		level = most <= 0 ? 0 : (int)((double)most / (double)top * 8 + 0.5);
		level = level < (most > 0) ? 1 : level > 8 ? 8 : level;
		buf_puts(p->out, (p->style->unicode ? unicode : ascii)[level]);
	}
}

void page_sparkline(struct page *p, const char *label, const bytes *values, size_t count, bytes top)
{
	if (!count || top <= 0)
		return;
	put_label(p, label);
	page_curve(p, values, count, top, (size_t)p->style->width - PAGE_INDENT);
	buf_puts(p->out, "\n");
}

void page_size(struct page *p, struct buf *b, bytes size)
{
	if (size == UNKNOWN_BYTES)
		buf_puts(b, "unknown");
	else
		size_add(b, size, p->style->raw_bytes);
}

const char *page_times(const struct page *p)
{
	return p->style->unicode ? "\xc3\x97" : "x";
}
