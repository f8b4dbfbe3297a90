/* The history of runs as text. */
#include "history/history_text.h"

#include "report/report.h"
#include "render/table.h"
#include "util/order.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUT_SHOWN 10

static void cell(struct table *t, const char *text)
{
	table_cell(t, PAINT_NONE, text ? text : "");
}

static void cell_size(struct page *p, struct table *t, bytes size)
{
	struct buf b = { 0 };

	if (size != UNKNOWN_BYTES)
		page_size(p, &b, size);
	table_cell(t, PAINT_NONE, b.text ? b.text : "-");
	buf_release(&b);
}

static void cell_number(struct table *t, int64_t n)
{
	char text[32] = "";

	if (n != UNKNOWN_BYTES)
		snprintf(text, sizeof(text), "%lld", (long long)n);
	table_cell(t, PAINT_NONE, text);
}

static void add_date(struct buf *b, int64_t ns)
{
	time_t s = (time_t)(ns / 1000000000);
	struct tm tm;
	char text[32];

	if (ns > 0 && gmtime_r(&s, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm))
		buf_puts(b, text);
	else
		buf_puts(b, "unknown time");
}

static const char *kind(const struct history_run *r)
{
	return r->simulated ? "simulated" : "observed";
}

void history_list_text(const struct history_run *runs, size_t count, const struct style *style,
		       struct buf *out)
{
	static const struct column columns[] = {
		{ "number", ALIGN_RIGHT, 0, 0 },    { "began (UTC)", ALIGN_LEFT, 0, 0 },
		{ "run", ALIGN_LEFT, 0, 1 },        { "job", ALIGN_LEFT, 3, 1 },
		{ "model", ALIGN_LEFT, 2, 1 },      { "gpu", ALIGN_LEFT, 4, 1 },
		{ "kind", ALIGN_LEFT, 0, 0 },       { "end", ALIGN_LEFT, 0, 0 },
		{ "verdict", ALIGN_LEFT, 1, 1 },    { "estimate", ALIGN_RIGHT, 1, 0 },
		{ "allocated", ALIGN_RIGHT, 0, 0 }, { "device", ALIGN_RIGHT, 0, 0 },
	};
	struct page p = { .out = out, .style = style };
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };

	buf_addf(out, "%zu %s\n", count, count == 1 ? "run" : "runs");
	for (size_t i = 0; i < count; i++) {
		const struct history_run *r = &runs[i];
		struct buf date = { 0 };

		add_date(&date, r->started_ns);
		cell_number(&t, r->id);
		cell(&t, date.text);
		cell(&t, r->run);
		cell(&t, r->job);
		cell(&t, r->model);
		cell(&t, r->gpu);
		cell(&t, kind(r));
		cell(&t, r->end);
		cell(&t, r->verdict);
		cell_size(&p, &t, r->estimated_allocated);
		cell_size(&p, &t, r->allocated_bytes);
		cell_size(&p, &t, r->device_bytes);
		buf_release(&date);
	}
	if (count)
		table_put(&p, &t);
}

static bytes observed_of(const struct history_run *r, const char *component)
{
	for (size_t i = 0; r && i < r->part_count; i++)
		if (!strcmp(r->parts[i].component, component))
			return r->parts[i].observed;
	return UNKNOWN_BYTES;
}

static void put_head(struct page *p, const struct history_run *r)
{
	struct buf b = { 0 };

	buf_addf(&b, "%lld  %s, ", (long long)r->id, r->run);
	add_date(&b, r->started_ns);
	buf_addf(&b, ", %s, %lld %s, ended: %s", kind(r), (long long)r->ranks,
		 r->ranks == 1 ? "rank" : "ranks", r->end ? r->end : "unknown");
	page_field(p, "run", b.text, 0);
	buf_release(&b);
	page_field(p, "job", r->job, 0);
	if (r->model)
		page_field(p, "model", r->model, 0);
	if (r->gpu)
		page_field(p, "gpu", r->gpu, 0);
	if (r->verdict)
		page_field(p, "verdict", r->verdict, 0);
}

static const char *string_or_mark(const json_t *v)
{
	return !v ? NULL : json_is_string(v) ? json_string_value(v) : "?";
}

/* The keys of an object with their values. Texts in JSON may have control characters as escapes. */
static void put_values(struct page *p, const char *label, const char *object)
{
	json_t *o = json_loads(object, 0, NULL), *v;
	struct buf text = { 0 };
	const char *key;

	json_object_foreach(o, key, v)
	{
		const char *value = string_or_mark(v);

		buf_puts(&text, text.length ? ", " : "");
		buf_add_clean(&text, (struct str){ key, strlen(key) });
		buf_puts(&text, " ");
		buf_add_clean(&text, (struct str){ value, strlen(value) });
	}
	if (text.length)
		page_field(p, label, text.text, 0);
	buf_release(&text);
	json_decref(o);
}

void history_show_text(const struct history_run *r, const struct history_run *other,
		       const struct style *style, struct buf *out)
{
	const struct history_run *simulated = r->simulated ? r : other,
				 *observed = r->simulated ? other : r;
	static const struct column columns[] = {
		{ "component", ALIGN_LEFT, 0, 0 },
		{ "estimate", ALIGN_RIGHT, 0, 0 },
		{ "simulated", ALIGN_RIGHT, 0, 0 },
		{ "observed", ALIGN_RIGHT, 0, 0 },
	};
	struct page p = { .out = out, .style = style };
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };

	put_head(&p, r);
	put_values(&p, "versions", r->versions);
	put_values(&p, "config", r->config);
	buf_puts(out, "\n");
#define LEVEL(name, estimate, member)                                     \
	cell(&t, name);                                                   \
	cell_size(&p, &t, estimate);                                      \
	cell_size(&p, &t, simulated ? simulated->member : UNKNOWN_BYTES); \
	cell_size(&p, &t, observed ? observed->member : UNKNOWN_BYTES);
	LEVEL("allocated", r->estimated_allocated, allocated_bytes)
	LEVEL("reserved", r->estimated_reserved, reserved_bytes)
	LEVEL("device", r->estimated_device, device_bytes)
#undef LEVEL
	for (size_t i = 0; i < r->part_count; i++) {
		cell(&t, r->parts[i].component);
		cell_size(&p, &t, r->parts[i].estimated);
		cell_size(&p, &t, observed_of(simulated, r->parts[i].component));
		cell_size(&p, &t, observed_of(observed, r->parts[i].component));
	}
	table_put(&p, &t);
}

/* Texts in JSON may have control characters as escapes. */
static void add_value(struct buf *b, const char *key, const char *first, const char *second)
{
	const char *const texts[] = {
		b->length ? "; " : "",     key,       ": ",
		first ? first : "not set", ", then ", second ? second : "not set"
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		buf_add_clean(b, (struct str){ texts[i], strlen(texts[i]) });
}

/* The keys of two objects whose values differ. */
static void put_differences(struct page *p, const char *label, const char *a, const char *b)
{
	json_t *x = json_loads(a ? a : "{}", 0, NULL), *y = json_loads(b ? b : "{}", 0, NULL), *v;
	struct buf text = { 0 };
	const char *key;

	json_object_foreach(x, key, v)
	{
		const json_t *other = json_object_get(y, key);

		if (!json_equal(v, other))
			add_value(&text, key, string_or_mark(v), string_or_mark(other));
	}
	json_object_foreach(y, key, v) if (!json_object_get(x, key))
		add_value(&text, key, NULL, string_or_mark(v));
	page_field(p, label, text.length ? text.text : "the same", 0);
	buf_release(&text);
	json_decref(x);
	json_decref(y);
}

static void put_pair(struct page *p, struct table *t, const char *name, bytes a, bytes b)
{
	char change[32] = "";

	if (a == UNKNOWN_BYTES && b == UNKNOWN_BYTES)
		return;
	cell(t, name);
	cell_size(p, t, a);
	cell_size(p, t, b);
	if (a > 0 && b != UNKNOWN_BYTES)
		snprintf(change, sizeof(change), "%+.1f %%", 100.0 * (double)(b - a) / (double)a);
	cell(t, change);
}

void history_compare_text(const struct history_run *a, const struct history_run *b,
			  const struct style *style, struct buf *out)
{
	static const struct column columns[] = {
		{ "component", ALIGN_LEFT, 0, 0 },
		{ "first", ALIGN_RIGHT, 0, 0 },
		{ "second", ALIGN_RIGHT, 0, 0 },
		{ "change", ALIGN_RIGHT, 0, 0 },
	};
	struct page p = { .out = out, .style = style };
	struct table t = { .columns = columns, .column_count = ARRAY_SIZE(columns) };

	put_head(&p, a);
	put_head(&p, b);
	put_differences(&p, "config", a->config, b->config);
	put_differences(&p, "versions", a->versions, b->versions);
	buf_puts(out, "\n");
	put_pair(&p, &t, "allocated", a->allocated_bytes, b->allocated_bytes);
	put_pair(&p, &t, "reserved", a->reserved_bytes, b->reserved_bytes);
	put_pair(&p, &t, "device", a->device_bytes, b->device_bytes);
	for (size_t i = 0; i < a->part_count; i++)
		put_pair(&p, &t, a->parts[i].component, a->parts[i].observed,
			 observed_of(b, a->parts[i].component));
	for (size_t i = 0; i < b->part_count; i++)
		if (observed_of(a, b->parts[i].component) == UNKNOWN_BYTES)
			put_pair(&p, &t, b->parts[i].component, UNKNOWN_BYTES,
				 b->parts[i].observed);
	table_put(&p, &t);
}

static void add_spread(struct page *p, struct buf *b, const struct peak_spread *s)
{
	buf_addf(b, "%zu %s, ", s->count, s->count == 1 ? "run" : "runs");
	page_size(p, b, s->median);
	buf_puts(b, " ± ");
	page_size(p, b, s->deviation);
}

/* "like the 7 days before", or how it differs. */
static void put_weeks(struct page *p, const struct job_trend *t, int days)
{
	struct buf b = { 0 };
	int direction = trend_direction(t);

	if (!t->before.count)
		buf_addf(&b, "nothing to compare with: no run in the %d days before", days);
	else if (!direction)
		buf_addf(&b, "like the %d days before", days);
	else
		buf_addf(&b, "%.1f %% %s than the %d days before",
			 100.0 * (double)bytes_distance(t->now.median, t->before.median) /
				 (double)larger_of(t->before.median, 1),
			 direction > 0 ? "more" : "less", days);
	buf_puts(&b, ": ");
	add_spread(p, &b, &t->now);
	if (t->before.count) {
		buf_puts(&b, "; before ");
		add_spread(p, &b, &t->before);
	}
	page_field(p, "now", b.text, 0);
	buf_release(&b);
}

static void put_prediction(struct page *p, const struct job_trend *t)
{
	const struct ratio_spread *s = &t->prediction;
	struct buf b = { 0 };

	if (!s->count)
		buf_puts(&b, "no run that exited in order has an estimate; records have one "
			     "after summarize --estimate");
	else
		buf_addf(&b, "%s: %.3f ± %.3f of the estimate in %zu %s",
			 s->median > 1 + TREND_TOLERANCE   ? "more than predicted"
			 : s->median < 1 - TREND_TOLERANCE ? "less than predicted"
							   : "as predicted",
			 s->median, s->deviation, s->count, s->count == 1 ? "run" : "runs");
	page_field(p, "prediction", b.text, 0);
	buf_release(&b);
}

static void put_out(struct page *p, const struct job_trend *t)
{
	for (size_t i = 0; i < t->out_count && i < OUT_SHOWN; i++) {
		const struct history_run *r = t->out[i];
		bytes size = trend_bytes(t, r);
		struct buf b = { 0 };

		buf_addf(&b, "run %lld (%s, ", (long long)r->id, r->run);
		add_date(&b, r->started_ns);
		buf_puts(&b, "): ");
		page_size(p, &b, size);
		buf_addf(&b, ", %+.1f %%",
			 100.0 * (double)(size - t->all.median) /
				 (double)larger_of(t->all.median, 1));
		page_field(p, i ? "" : "out", b.text, 0);
		buf_release(&b);
	}
	if (t->out_count > OUT_SHOWN) {
		char more[48];

		snprintf(more, sizeof(more), "%zu more", t->out_count - OUT_SHOWN);
		page_field(p, "", more, 0);
	}
	if (!t->out_count)
		page_field(p, "out", t->count < TREND_FEWEST ? "too few runs to say" : "no run", 0);
}

void history_trend_text(const struct job_trend *trends, size_t count, int days,
			const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };

	for (size_t i = 0; i < count; i++) {
		const struct job_trend *t = &trends[i];
		struct buf b = { 0 };

		buf_puts(out, i ? "\n" : "");
		buf_addf(&b, "%s%s%s, %s, peak of %s: ", t->runs[0]->job,
			 t->runs[0]->model ? ", " : "", t->runs[0]->model ? t->runs[0]->model : "",
			 kind(t->runs[0]), t->of_device ? "the device" : "tensors");
		add_spread(&p, &b, &t->all);
		buf_puts(&b, " (median, and the median of the distances from it)");
		page_field(&p, "job", b.text, 0);
		put_weeks(&p, t, days);
		put_prediction(&p, t);
		put_out(&p, t);
		buf_release(&b);
	}
}

void correction_add(struct buf *out, const struct correction *c, const char *path)
{
	const struct str file = { path, strlen(path) };

	if (!c->ratio.count) {
		buf_puts(out, "no run of this configuration or model in ");
		buf_add_clean(out, file);
		buf_puts(out, " has ended and has an estimate");
		return;
	}
	buf_addf(out, "%zu %s%s of this %s (", c->ratio.count, c->is_simulated ? "simulated " : "",
		 c->ratio.count == 1 ? "run" : "runs",
		 c->is_same_model ? "model in other configurations" : "configuration");
	buf_add_clean(out, file);
	buf_addf(out, ") used %.3f of the estimate, ± %.3f (medians)", c->ratio.median,
		 c->ratio.deviation);
}
