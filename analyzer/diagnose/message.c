#include "diagnose/message.h"

#include "diagnose/diagnose.h"
#include "util/size.h"

#include <string.h>

const char *saving_bound_name(enum saving_bound b)
{
	static const char *const names[] = { NULL, "at least", "at the failure" };

	return names[b];
}

const char *severity_name(enum severity s)
{
	static const char *const names[] = { "error", "warning", "note" };

	return names[s];
}

static void add_value(struct buf *b, enum metric_unit unit, int64_t value)
{
	if (unit == UNIT_BYTES)
		size_add(b, value, 0);
	else if (unit == UNIT_FLAG)
		buf_puts(b, value ? "yes" : "no");
	else if ((unit == UNIT_COUNT || unit == UNIT_FACTOR) && value < 0)
		buf_puts(b, "an unknown number of");
	else
		buf_addf(b, "%lld", (long long)value);
}

static void add_evidence(struct finding *f, const struct metric_row *row, int64_t value)
{
	for (size_t i = 0; i < f->evidence_count; i++)
		if (!strcmp(f->evidence[i].name, row->name))
			return;
	/* Many ranks have a finding each, of a few numbers. */
	f->evidence = xrealloc(f->evidence, f->evidence_count + 1, sizeof(*f->evidence));
	f->evidence[f->evidence_count++] = (struct evidence){ row->name, row->unit, value };
}

/* The metric at a `{`. `end` becomes the place behind its name. */
static const struct metric_row *metric_at(const char *open, const char **end)
{
	size_t n = strcspn(open + 1, "}");
	const struct metric_row *row = metric_find(open + 1, n);

	if (!row)
		BUG("a message names no metric");
	*end = open + n + 2;
	return row;
}

/* Is it the begin of a part that is left out if its first metric is 0? */
static int is_part(const char *at)
{
	size_t open = strcspn(at, "{]");

	return *at == '[' && at[open] == '{';
}

void diagnose_fill(struct buf *out, const char *format, const struct metrics *m, struct finding *f)
{
	const char *end = NULL; /* of the part */
	int is_left_out = 0;

	for (const char *at = format; *at;) {
		const struct metric_row *row;

		if (!end && is_part(at)) {
			row = metric_at(at + strcspn(at, "{"), &end);
			is_left_out = !metric_value(m, row);
			end = strchr(end, ']');
			if (!end)
				BUG("a part of a message does not end");
			at++;
		} else if (at == end) {
			end = NULL;
			is_left_out = 0;
			at++;
		} else if (*at == '{') {
			row = metric_at(at, &at);
			if (!is_left_out)
				add_value(out, row->unit, metric_value(m, row));
			if (f)
				add_evidence(f, row, metric_value(m, row));
		} else {
			buf_add(out, at++, !is_left_out);
		}
	}
}
