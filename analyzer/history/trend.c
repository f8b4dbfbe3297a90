#include "history/trend.h"

#include "report/report.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define DAY_NS (INT64_C(86400) * 1000000000)

static struct peak_spread spread_of(bytes *values, size_t count)
{
	struct peak_spread s = { .count = count };

	if (!count)
		return s;
	s.median = bytes_median(values, count);
	for (size_t i = 0; i < count; i++)
		values[i] = bytes_distance(values[i], s.median);
	s.deviation = bytes_median(values, count);
	return s;
}

/* Ratios are divided in millionths, so that they have the same medians as bytes. */
static struct ratio_spread ratio_spread_of(bytes *millionths, size_t count)
{
	struct peak_spread s = spread_of(millionths, count);

	return (struct ratio_spread){ count, (double)s.median / 1e6, (double)s.deviation / 1e6 };
}

static bytes ratio_of(const struct history_run *r)
{
	double ratio = (double)r->allocated_bytes / (double)r->estimated_allocated * 1e6;

	return ratio < (double)BYTES_LIMIT ? (bytes)ratio : BYTES_LIMIT;
}

bytes trend_bytes(const struct job_trend *t, const struct history_run *r)
{
	return t->of_device ? r->device_bytes : r->allocated_bytes;
}

int trend_direction(const struct job_trend *t)
{
	if (!t->now.count || !t->before.count ||
	    !bytes_is_far(t->now.median, t->before.median,
			  larger_of(t->now.deviation, t->before.deviation)))
		return 0;
	return t->now.median > t->before.median ? 1 : -1;
}

static int same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* Does the run show the error of its estimate? One that died had not reached the memory that it
 * needs. */
static int has_ratio(const struct history_run *r)
{
	return same(r->end, "exit") && r->estimated_allocated > 0 && r->allocated_bytes > 0;
}

static int is_over(const struct history_run *r)
{
	return !same(r->end, "running") && r->device_bytes != UNKNOWN_BYTES &&
	       r->allocated_bytes != UNKNOWN_BYTES;
}

static struct job_trend *trend_of(struct job_trend *trends, size_t count,
				  const struct history_run *r)
{
	for (size_t i = 0; i < count; i++)
		if (trends[i].runs[0]->simulated == r->simulated &&
		    same(trends[i].runs[0]->job, r->job))
			return &trends[i];
	return NULL;
}

/* The runs that began after `from` and not after `to`. */
static struct peak_spread between(const struct job_trend *t, int64_t from, int64_t to,
				  bytes *values)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->runs[i]->started_ns > from && t->runs[i]->started_ns <= to)
			values[n++] = trend_bytes(t, t->runs[i]);
	return spread_of(values, n);
}

static void compute(struct job_trend *t, int days)
{
	bytes *values = xcalloc(t->count, sizeof(*values));
	int64_t end = t->runs[t->count - 1]->started_ns, length = days * DAY_NS;
	size_t n = 0;

	t->of_device = 1;
	for (size_t i = 0; i < t->count; i++)
		t->of_device &= !t->runs[i]->allocated_bytes;
	for (size_t i = 0; i < t->count; i++)
		values[i] = trend_bytes(t, t->runs[i]);
	t->all = spread_of(values, t->count);
	t->now = between(t, end - length, end, values);
	t->before = between(t, end - 2 * length, end - length, values);
	for (size_t i = 0; i < t->count; i++)
		if (has_ratio(t->runs[i]))
			values[n++] = ratio_of(t->runs[i]);
	t->prediction = ratio_spread_of(values, n);
	t->out = xcalloc(t->count, sizeof(*t->out));
	for (size_t i = 0; i < t->count && t->count >= TREND_FEWEST; i++)
		if (bytes_is_far(trend_bytes(t, t->runs[i]), t->all.median, t->all.deviation))
			t->out[t->out_count++] = t->runs[i];
	free(values);
}

void trends_make(struct job_trend **trends, size_t *count, const struct history_run *runs, size_t n,
		 int days)
{
	size_t room = 0;

	*trends = NULL;
	*count = 0;
	for (size_t i = 0; i < n; i++) {
		const struct history_run *r = &runs[i];
		struct job_trend *t;

		if (!is_over(r))
			continue;
		t = trend_of(*trends, *count, r);
		if (!t) {
			*trends = grow(*trends, *count, &room, sizeof(**trends));
			t = &(*trends)[(*count)++];
			*t = (struct job_trend){ .runs = xcalloc(n, sizeof(*t->runs)) };
		}
		t->runs[t->count++] = r;
	}
	for (size_t i = 0; i < *count; i++)
		compute(&(*trends)[i], days);
}

void trends_release(struct job_trend *trends, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(trends[i].runs);
		free(trends[i].out);
	}
	free(trends);
}

/* The runs that are compared: those of one configuration or model, on a GPU or simulated. */
static int is_asked(const struct history_run *r, const struct correction *c,
		    const char *fingerprint, const char *model)
{
	return has_ratio(r) && r->simulated == c->is_simulated &&
	       (c->is_same_model ? same(r->model, model) : same(r->fingerprint, fingerprint));
}

struct correction correction_make(const struct history_run *runs, size_t n, const char *fingerprint,
				  const char *model)
{
	struct correction c = { .is_simulated = 0 };
	bytes *values = xcalloc(n + 1, sizeof(*values));

	for (int kind = 0; kind < 4 && !c.ratio.count; kind++) {
		size_t found = 0;

		c.is_same_model = kind & 1;
		c.is_simulated = kind >> 1;
		for (size_t i = 0; i < n; i++)
			if (is_asked(&runs[i], &c, fingerprint, model))
				values[found++] = ratio_of(&runs[i]);
		c.ratio = ratio_spread_of(values, found);
	}
	free(values);
	return c;
}
