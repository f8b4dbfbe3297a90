#include "top/frame_text.h"

#include "top/frame_words.h"
#include "top/status_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum paint state_paint(enum live_state s)
{
	return s > LIVE_SILENT ? PAINT_ALARM : s > LIVE_RUNNING ? PAINT_WARNING : PAINT_NONE;
}

/* Columns after the bar's start; `order` marks the title by which rows are sorted. `rank`: columns
 * with a higher one are left out first. */
enum frame_column {
	COLUMN_RANK,
	COLUMN_GPU,
	COLUMN_STATE,
	COLUMN_AGE,
	COLUMN_BAR,
	COLUMN_ALLOCATED,
	COLUMN_RESERVED,
	COLUMN_DEVICE,
	COLUMN_TOTAL,
	COLUMN_PEAK,
	COLUMN_GROWTH,
	COLUMN_LEFT,
	COLUMN_STEP,
	COLUMN_HOLDS,
	COLUMN_PID,
	COLUMN_HOST,
	COLUMNS
};

static const struct {
	const char *title;
	size_t width;
	int rank, is_text;
	enum row_order order;
} columns[COLUMNS] = {
	[COLUMN_RANK] = { "rank", 4, 0, 0, ORDER_RANK },
	[COLUMN_GPU] = { "gpu", 3, 0, 0, ROW_ORDER_COUNT },
	[COLUMN_STATE] = { "state", 8, 0, 1, ORDER_STATE },
	[COLUMN_AGE] = { "event", 6, 0, 0, ORDER_AGE },
	[COLUMN_BAR] = { "memory", 10, 0, 1, ORDER_DEVICE },
	[COLUMN_ALLOCATED] = { "alloc", 6, 0, 0, ORDER_ALLOCATED },
	[COLUMN_RESERVED] = { "reserv", 6, 0, 0, ROW_ORDER_COUNT },
	[COLUMN_DEVICE] = { "device", 6, 0, 0, ROW_ORDER_COUNT },
	[COLUMN_TOTAL] = { "of", 5, 2, 0, ROW_ORDER_COUNT },
	[COLUMN_PEAK] = { "peak", 6, 0, 0, ORDER_PEAK },
	[COLUMN_GROWTH] = { "+/step", 6, 0, 0, ORDER_GROWTH },
	[COLUMN_LEFT] = { "left", 6, 0, 0, ORDER_LEFT },
	[COLUMN_STEP] = { "step", 6, 3, 0, ROW_ORDER_COUNT },
	[COLUMN_HOLDS] = { "holds", 38, 4, 1, ROW_ORDER_COUNT },
	[COLUMN_PID] = { "pid", 8, 5, 0, ROW_ORDER_COUNT },
	[COLUMN_HOST] = { "host", 16, 6, 1, ROW_ORDER_COUNT },
};

#define WIDEST_BAR 40

/* The highest rank of the columns that fit, and the width of the bar beside them. */
static int columns_that_fit(size_t width, size_t *bar)
{
	size_t used = 0;
	int fits = 0;

	for (int rank = 0; rank <= 6; rank++) {
		size_t more = 0;

		for (size_t i = 0; i < COLUMNS; i++)
			more += columns[i].rank == rank ? columns[i].width + 1 : 0;
		if (rank && used + more > width + 1)
			break;
		used += more;
		fits = rank;
	}
	*bar = columns[COLUMN_BAR].width + (used <= width ? width + 1 - used : 0);
	*bar = *bar > WIDEST_BAR ? WIDEST_BAR : *bar;
	return fits;
}

static void put_cell(struct page *p, size_t column, size_t width, enum paint paint,
		     const char *text)
{
	size_t length = utf8_width(text), space = length < width ? width - length : 0;

	if (!columns[column].is_text)
		buf_addf(p->out, "%*s", (int)space, "");
	page_paint(p, paint, text);
	if (columns[column].is_text && column + 1 < COLUMNS)
		buf_addf(p->out, "%*s", (int)space, "");
}

void frame_titles(struct page *p, enum row_order order)
{
	size_t bar;
	int fits = columns_that_fit((size_t)p->style->width, &bar);

	for (size_t i = 0; i < COLUMNS; i++) {
		if (columns[i].rank > fits)
			continue;
		buf_puts(p->out, i ? " " : "");
		put_cell(p, i, i == COLUMN_BAR ? bar : columns[i].width,
			 columns[i].order == order ? PAINT_CACHED : PAINT_BOLD, columns[i].title);
	}
	buf_puts(p->out, "\n");
}

static const char *mark(const struct page *p, size_t part)
{
	static const char *const unicode[] = { "\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x91",
					       "\xc2\xb7" };
	static const char *const ascii[] = { "#", "=", "+", "." };

	return (p->style->unicode ? unicode : ascii)[part];
}

void frame_bar(struct page *p, const struct live_device *d, size_t room)
{
	static const enum paint paints[] = { PAINT_TENSORS, PAINT_CACHED, PAINT_OUTSIDE,
					     PAINT_FREE };
	/* Without a caching allocator the tensors' memory is not reserved. */
	bytes used = live_device_bytes(d),
	      tensors = smaller_of(d->allocated, used ? used : d->allocated);
	const bytes upto[] = { tensors, larger_of(tensors, d->reserved), larger_of(tensors, used),
			       d->total };
	bytes total = larger_of(d->total, larger_of(tensors, used));
	size_t drawn = 0;

	if (!d->total) {
		buf_addf(p->out, "%-*.*s", (int)room, (int)room, "?");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(upto); i++) {
		size_t end = (size_t)llround((double)upto[i] / (double)total * (double)room);
		struct buf part = { 0 };

		/* A part that is not empty has at least one character. */
		end += end == drawn && upto[i] > (i ? upto[i - 1] : 0) && i + 1 < ARRAY_SIZE(upto);
		for (; drawn < end && drawn < room; drawn++)
			buf_puts(&part, mark(p, i));
		if (part.length)
			page_paint(p, paints[i], part.text);
		buf_release(&part);
	}
	for (; drawn < room; drawn++)
		buf_puts(p->out, " ");
}

/* The largest categories of the recent peak: "activations 61 %, parameters 20 %". */
static void add_holds(struct buf *b, const struct live_device *d, size_t room)
{
	int used[CATEGORIES] = { 0 };

	for (size_t k = 0; d->tail.is_known && d->tail.peak > 0 && k < CATEGORIES; k++) {
		enum category most = CATEGORIES;
		struct buf one = { 0 };
		double share;

		for (enum category c = 0; c < CATEGORIES; c++)
			if (!used[c] && (most == CATEGORIES ||
					 d->tail.by_category[c] > d->tail.by_category[most]))
				most = c;
		used[most] = 1;
		share = 100.0 * (double)d->tail.by_category[most] / (double)d->tail.peak;
		if (share < 0.5)
			break;
		buf_addf(&one, "%s%s %.0f %%", k ? ", " : "", category_title(most), share);
		if (b->length + one.length <= room)
			buf_puts(b, one.text);
		buf_release(&one);
	}
}

static enum paint add_left(struct buf *b, const struct live_device *d)
{
	int64_t left = live_steps_until_full(d);

	if (left < 0)
		return PAINT_NONE;
	if (left > 99999)
		buf_puts(b, ">99999");
	else
		buf_addf(b, "%lld", (long long)left);
	return PAINT_WARNING;
}

static void add_growth(struct buf *b, const struct trend *t)
{
	if (t->steps < TREND_LEAST)
		return;
	buf_puts(b, t->growth > 0 ? "+" : "");
	if (t->growth)
		frame_size(b, t->growth);
	else
		buf_puts(b, "0");
}

/* A cell that a process has also without a device. Returns its colour. */
static enum paint add_process(struct buf *b, const struct live_process *p, enum frame_column column)
{
	switch (column) {
	case COLUMN_RANK:
		if (p->rank >= 0)
			buf_addf(b, "%d", p->rank);
		break;
	case COLUMN_STATE:
		buf_puts(b, live_state_key(p->state));
		return state_paint(p->state);
	case COLUMN_AGE:
		if (p->age_s >= 0)
			frame_time(b, p->age_s);
		return p->state == LIVE_SILENT ? PAINT_WARNING : PAINT_NONE;
	case COLUMN_PID:
		if (p->state != LIVE_DAMAGED)
			buf_addf(b, "%u", p->pid);
		break;
	case COLUMN_HOST:
		buf_puts(b, p->host);
		break;
	default:
		break;
	}
	return PAINT_NONE;
}

static enum paint add_device(struct buf *b, const struct live_device *d, enum frame_column column)
{
	switch (column) {
	case COLUMN_GPU:
		buf_addf(b, "%u", d->ordinal);
		break;
	case COLUMN_ALLOCATED:
		frame_size(b, d->allocated);
		break;
	case COLUMN_RESERVED:
		frame_size(b, d->reserved);
		break;
	case COLUMN_DEVICE:
		frame_size(b, live_device_bytes(d));
		break;
	case COLUMN_TOTAL:
		if (d->total)
			frame_size(b, d->total);
		break;
	case COLUMN_PEAK:
		frame_size(b, d->device_peak);
		break;
	case COLUMN_GROWTH:
		add_growth(b, &d->tail.trend);
		return d->tail.trend.is_growing ? PAINT_WARNING : PAINT_NONE;
	case COLUMN_LEFT:
		return add_left(b, d);
	case COLUMN_STEP:
		if (d->tail.step)
			buf_addf(b, "%u", d->tail.step);
		break;
	case COLUMN_HOLDS:
		add_holds(b, d, columns[COLUMN_HOLDS].width);
		break;
	default:
		break;
	}
	return PAINT_NONE;
}

/* Adds as much of a text as `room` columns hold. */
static void add_cut(struct buf *b, const char *text, size_t room)
{
	size_t n = 0, shown = 0;

	while (text[n] && (shown < room || utf8_continues(text[n])))
		shown += !utf8_continues(text[n++]);
	buf_add(b, text, n);
}

/* Prints why a trace cannot be read, in place of the columns behind the state. The file is named
 * without its directory. */
static void put_why(struct page *p, const struct live_process *process, size_t room)
{
	const char *path = strstr(process->why, process->path), *why = process->why;
	struct buf b = { 0 };

	if (path) {
		buf_add(&b, why, (size_t)(path - why));
		why = path + strlen(process->path);
	}
	frame_name(&b, process);
	buf_puts(&b, path ? "" : ": ");
	buf_puts(&b, why);
	add_cut(p->out, b.text, room);
	buf_release(&b);
}

void frame_row(struct page *p, const struct process_row *r)
{
	size_t bar, used = 0;
	int fits = columns_that_fit((size_t)p->style->width, &bar);

	for (size_t i = 0; i < COLUMNS; i++) {
		size_t width = i == COLUMN_BAR ? bar : columns[i].width;
		struct buf b = { 0 };
		enum paint paint;

		if (columns[i].rank > fits)
			continue;
		buf_puts(p->out, i ? " " : "");
		used += i != 0;
		if (i == COLUMN_AGE && r->process->state == LIVE_DAMAGED) {
			put_why(p, r->process,
				(size_t)larger_of(p->style->width - (int64_t)used, 0));
			break;
		}
		used += width;
		if (i == COLUMN_BAR && r->device) {
			frame_bar(p, r->device, width);
			continue;
		}
		paint = add_process(&b, r->process, (enum frame_column)i);
		if (!b.length && r->device)
			paint = add_device(&b, r->device, (enum frame_column)i);
		put_cell(p, i, width, paint, b.text ? b.text : "");
		buf_release(&b);
	}
	buf_puts(p->out, "\n");
}

static void put_cut(struct page *p, enum paint paint, const char *text)
{
	struct buf b = { 0 };

	add_cut(&b, text, (size_t)p->style->width);
	page_paint(p, paint, b.text ? b.text : "");
	buf_puts(p->out, "\n");
	buf_release(&b);
}

static void put_counts(struct page *p, const struct folder *f, const struct process_row *rows,
		       size_t count)
{
	static const enum live_state order[] = { LIVE_RUNNING, LIVE_SILENT, LIVE_ENDED,
						 LIVE_FAILED,  LIVE_KILLED, LIVE_OOM,
						 LIVE_UNKNOWN, LIVE_DAMAGED };
	const struct live_process *before = NULL;
	size_t counts[ARRAY_SIZE(order)] = { 0 }, all = 0;
	time_t seconds = (time_t)f->time_s;
	struct buf b = { 0 };
	char clock[16] = "";
	struct tm local;
	const char *separator = ": ";

	for (size_t i = 0; i < count; before = rows[i++].process)
		for (size_t k = 0; k < ARRAY_SIZE(order) && rows[i].process != before; k++) {
			counts[k] += rows[i].process->state == order[k];
			all += rows[i].process->state == order[k];
		}
	if (localtime_r(&seconds, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	buf_addf(&b, "%s  %zu %s", clock, all, all == 1 ? "process" : "processes");
	for (size_t k = 0; k < ARRAY_SIZE(order); k++)
		if (counts[k]) {
			buf_addf(&b, "%s%zu %s", separator, counts[k], live_state_key(order[k]));
			separator = ", ";
		}
	buf_puts(&b, "  in ");
	buf_add_clean(&b, (struct str){ f->path, strlen(f->path) });
	put_cut(p, PAINT_BOLD, b.text);
	buf_release(&b);
}

void frame_head(struct page *p, const struct folder *f, const struct process_row *rows,
		size_t count)
{
	static const char *const names[] = { "tensors", "cached", "other", "free" };
	const struct process_row *worst = live_rows_worst(rows, count);
	struct buf b = { 0 };

	put_counts(p, f, rows, count);
	if (worst)
		status_line_row(&b, worst, f->path);
	else
		status_line_fullest(&b, rows, count);
	put_cut(p, !worst ? PAINT_NONE : state_paint(worst->process->state), b.text ? b.text : "");
	b.length = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		buf_addf(&b, "%s%s %s", i ? "  " : "", mark(p, i), names[i]);
	buf_puts(&b, "   left: steps until the GPU is full");
	put_cut(p, PAINT_FREE, b.text);
	buf_release(&b);
}

void frame_text(struct page *p, const struct folder *f, const struct row_choice *c)
{
	size_t count;
	struct process_row *rows = live_rows(f, c, &count);

	frame_head(p, f, rows, count);
	frame_titles(p, c->order);
	for (size_t i = 0; i < count; i++)
		frame_row(p, &rows[i]);
	free(rows);
}
