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
	else if (unit == UNIT_COUNT && value < 0)
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

void diagnose_fill(struct buf *out, const char *format, const struct metrics *m, struct finding *f)
{
	for (const char *at = format; *at;) {
		const struct metric_row *row;
		size_t n;

		if (*at != '{') {
			buf_add(out, at++, 1);
			continue;
		}
		n = strcspn(at + 1, "}");
		row = metric_find(at + 1, n);
		if (!row)
			BUG("a message names no metric");
		add_value(out, row->unit, metric_value(m, row));
		if (f)
			add_evidence(f, row, metric_value(m, row));
		at += n + 2;
	}
}
