/* A line of JSON as a rank of a report. Nothing in a record is trusted: numbers are kept within the
 * bounds of a trace, and texts are cleaned. */
#include "record/record.h"

#include <memtrace/trace.h>

#include "readers/native.h"
#include "report/report_metrics.h"
#include "report/texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A record has fewer rows. More of them would take much more memory than their line: a row of one
 * character is hundreds of bytes of a rank. */
#define MOST_PLACES 128
#define MOST_FAILURES 16
#define MOST_STEPS 256
#define MOST_POINTS 256
#define MOST_PHASES 64
#define MOST_WARNINGS 64

json_t *record_parse(const char *line, size_t length, struct err *e)
{
	json_error_t why;
	json_t *j, *version;

	if (length > RECORD_MAX) {
		err_set(e, "a line of %zu bytes is no record: one has at most %d", length,
			RECORD_MAX);
		return NULL;
	}
	j = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);
	version = json_object_get(j, RECORD_KEY);
	if (!j)
		err_set(e, "not a record of memtrace summarize: %s", why.text);
	else if (!json_is_integer(version))
		err_set(e, "not a record of memtrace summarize: there is no number \"" RECORD_KEY
			   "\"");
	else if (json_integer_value(version) != RECORD_VERSION)
		err_set(e, "the record has version %lld, and this memtrace reads version %d",
			(long long)json_integer_value(version), RECORD_VERSION);
	else if (!json_is_string(json_object_get(j, "run")) ||
		 !json_is_integer(json_object_get(j, "device")))
		err_set(e, "the record has no text \"run\" or no number \"device\"");
	else
		return j;
	json_decref(j);
	return NULL;
}

static char *pooled(struct rank *r, char *text)
{
	if (r->texts)
		return texts_share(r->texts, text);
	r->pool = grow(r->pool, r->pool_count, &r->pool_room, sizeof(*r->pool));
	return r->pool[r->pool_count++] = text;
}

static char *clean(const json_t *v)
{
	struct buf b = { 0 };

	if (!json_is_string(v))
		return NULL;
	buf_add_clean(&b, (struct str){ json_string_value(v), json_string_length(v) });
	return buf_take(&b);
}

static char *word(struct rank *r, const json_t *v)
{
	char *text = clean(v);

	return text ? pooled(r, text) : NULL;
}

/* A text that is released by itself, if it is not shared. */
static char *own(struct rank *r, const json_t *v)
{
	char *text = clean(v);

	return text && r->texts ? texts_share(r->texts, text) : text;
}

static int64_t between(const json_t *v, int64_t least, int64_t most)
{
	int64_t n = json_integer_value(v);

	return n < least ? least : n > most ? most : n;
}

static double seconds(const json_t *v)
{
	double n = json_number_value(v);

	return isfinite(n) && n >= 0 && n < 1e12 ? n : 0;
}

static enum category category(const json_t *v)
{
	const char *key = json_string_value(v);

	for (enum category c = 0; key && c < CATEGORIES; c++)
		if (!strcmp(key, category_key(c)))
			return c;
	return CATEGORY_OTHER;
}

static enum phase phase(const json_t *v)
{
	const char *key = json_string_value(v);

	for (enum phase p = 0; key && p < PHASES; p++)
		if (!strcmp(key, phase_name(p)))
			return p;
	return PHASE_SETUP;
}

#define get_NUMBER(r, v) (int)between(v, INT32_MIN, INT32_MAX)
#define get_COUNT(r, v) (uint32_t) between(v, 0, UINT32_MAX)
#define get_NONZERO(r, v) get_COUNT(r, v)
#define get_INDEX(r, v) (json_is_integer(v) ? (int)between(v, 0, INT32_MAX) : NO_RANK)
#define get_LONG(r, v) (uint64_t) between(v, 0, INT64_MAX)
#define get_BYTES(r, v) between(v, -BYTES_LIMIT, BYTES_LIMIT)
#define get_MAYBE_BYTES(r, v) (json_is_integer(v) ? get_BYTES(r, v) : UNKNOWN_BYTES)
#define get_TIME(r, v) between(v, 0, INT64_MAX)
#define get_SECONDS(r, v) seconds(v)
#define get_FLAG(r, v) json_is_true(v)
#define get_WORD(r, v) word(r, v)
#define get_TEXT(r, v) word(r, v)
#define get_OWNED(r, v) own(r, v)
#define get_MODULE(r, v) get_OWNED(r, v)
#define get_CATEGORY(r, v) category(v)
#define get_PHASE(r, v) phase(v)
#define get_SCOPE(r, v)                                                              \
	peak_scope_find((struct str){ json_is_string(v) ? json_string_value(v) : "", \
				      json_string_length(v) })
#define get_SURVIVAL(r, v) \
	(json_is_true(v) ? SURVIVED_YES : json_is_null(v) ? SURVIVED_UNKNOWN : SURVIVED_NO)
#define GET(key, type, value, in) GET_##in(key, type, value)
#define GET_BOTH(key, type, value) value = get_##type(r, json_object_get(j, key));
#define GET_RECORD(key, type, value) GET_BOTH(key, type, value)
#define GET_REPORT(key, type, value)

static void read_categories(bytes *bytes_of, const json_t *o)
{
	for (enum category c = 0; c < CATEGORIES; c++)
		bytes_of[c] = between(json_object_get(o, category_key(c)), 0, BYTES_LIMIT);
}

static void read_point(struct rank *r, struct point *x, const json_t *j)
{
#define POINT GET
#include "report/members.def"
	read_categories(x->by_category, json_object_get(j, "by_category"));
	if (!x->phase)
		x->phase = "unknown";
}

static void read_failure(struct rank *r, struct oom *x, const json_t *j)
{
	const json_t *owners = json_object_get(j, "by_owner");

#define OOM GET
#include "report/members.def"
	read_point(r, &x->when, json_object_get(j, "when"));
	for (enum owner o = 0; o < OWNERS; o++)
		x->by_owner[o] =
			between(json_object_get(owners, owner_key(o)), -BYTES_LIMIT, BYTES_LIMIT);
}

static void read_step(struct step_row *x, const json_t *j)
{
#define STEP GET
#include "report/members.def"
}

static void read_phase(struct rank *r, struct phase_row *x, const json_t *j)
{
#define PHASE GET
#include "report/members.def"
	if (!x->phase)
		x->phase = "";
}

static void read_time(struct rank *r, struct timeline_row *x, const json_t *j)
{
	(void)r;
	x->time_s = seconds(json_array_get(j, 0));
	x->allocated = between(json_array_get(j, 1), 0, BYTES_LIMIT);
	x->reserved = between(json_array_get(j, 2), 0, BYTES_LIMIT);
	x->device = json_is_null(json_array_get(j, 3))
			    ? UNKNOWN_BYTES
			    : between(json_array_get(j, 3), 0, BYTES_LIMIT);
}

static char *own_copy(struct rank *r, const char *text)
{
	char *copy = xstrdup(text ? text : "");

	return r->texts ? texts_share(r->texts, copy) : copy;
}

static void read_place(struct rank *r, struct stack_row *x, const json_t *j)
{
#define STACK GET
#include "report/members.def"
	x->label = x->label ? x->label : own_copy(r, NULL);
	x->inner = x->inner ? x->inner : own_copy(r, NULL);
	x->module = x->module ? x->module : own_copy(r, NULL);
	x->stack = own_copy(r, x->label);
}

/* The rows of a list, at most `most`; `rows` gets room for them. */
static size_t list_of(const json_t *j, const char *key, size_t most, size_t size, void *rows,
		      const json_t **all)
{
	size_t n;
	void *room;

	*all = json_object_get(j, key);
	n = json_array_size(*all);
	n = n < most ? n : most;
	room = n ? xcalloc(n, size) : NULL;
	memcpy(rows, &room, sizeof(room));
	return n;
}

static void read_lists(struct rank *r, const json_t *j)
{
	const json_t *list;

	r->stacks.count =
		list_of(j, "places", MOST_PLACES, sizeof(*r->stacks.rows), &r->stacks.rows, &list);
	for (size_t i = 0; i < r->stacks.count; i++)
		read_place(r, &r->stacks.rows[i], json_array_get(list, i));
	r->stacks.left_out = (size_t)larger_of(
		between(json_object_get(j, "place_count"), 0, INT32_MAX) - (int64_t)r->stacks.count,
		0);
	r->oom_count = list_of(j, "oom", MOST_FAILURES, sizeof(*r->ooms), &r->ooms, &list);
	for (size_t i = 0; i < r->oom_count; i++)
		read_failure(r, &r->ooms[i], json_array_get(list, i));
	r->step_count = list_of(j, "steps", MOST_STEPS, sizeof(*r->steps), &r->steps, &list);
	for (size_t i = 0; i < r->step_count; i++)
		read_step(&r->steps[i], json_array_get(list, i));
	r->steps_left_out = (size_t)larger_of(
		between(json_object_get(j, "step_count"), 0, INT32_MAX) - (int64_t)r->step_count,
		0);
	r->steps_before_gap = RECORD_FIRST_STEPS(r->step_count);
	r->timeline_count =
		list_of(j, "timeline", MOST_POINTS, sizeof(*r->timeline), &r->timeline, &list);
	for (size_t i = 0; i < r->timeline_count; i++)
		read_time(r, &r->timeline[i], json_array_get(list, i));
	r->phase_count = list_of(j, "phases", MOST_PHASES, sizeof(*r->phases), &r->phases, &list);
	for (size_t i = 0; i < r->phase_count; i++)
		read_phase(r, &r->phases[i], json_array_get(list, i));
	r->warning_count =
		list_of(j, "warnings", MOST_WARNINGS, sizeof(*r->warnings), &r->warnings, &list);
	r->warning_room = r->warning_count;
	for (size_t i = 0; i < r->warning_count; i++) {
		r->warnings[i] = clean(json_array_get(list, i));
		r->warnings[i] = r->warnings[i] ? r->warnings[i] : xstrdup("");
	}
}

static void read_owners(struct rank *r, const json_t *o)
{
	r->owners = xcalloc(OWNERS, sizeof(*r->owners));
	for (enum owner k = 0; k < OWNERS; k++) {
		const json_t *row = json_object_get(o, owner_key(k));

		if (!row)
			continue;
		r->owners[r->owner_count++] = (struct owner_row){
			.key = owner_key(k),
			.title = owner_title(k),
			.is_always_listed = owner_is_always_listed(k),
			.peak = between(json_object_get(row, "peak_bytes"), 0, BYTES_LIMIT),
			.at_peak = between(json_object_get(row, "at_peak_bytes"), -BYTES_LIMIT,
					   BYTES_LIMIT),
		};
	}
	r->owners = xrealloc(r->owners, r->owner_count + 1, sizeof(*r->owners));
}

static void read_versions(struct rank *r, json_t *o)
{
	const char *key;
	json_t *value;

	r->versions = xcalloc(json_object_size(o) + 1, sizeof(*r->versions));
	json_object_foreach(o, key, value)
	{
		struct buf name = { 0 };
		char *text = word(r, value);

		if (!text)
			continue;
		buf_add_clean(&name, (struct str){ key, strlen(key) });
		r->versions[r->version_count++] =
			(struct version){ pooled(r, buf_take(&name)), text };
	}
}

static stack_tags tags(const json_t *names)
{
	stack_tags bits = 0;

	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		for (enum stack_tag t = 0; name && t < TAGS; t++)
			if (!strcmp(name, stack_tag_name(t)))
				bits |= (stack_tags)1 << t;
	}
	return bits;
}

static void read_metrics(struct rank *r, const json_t *j)
{
	const json_t *o = json_object_get(j, "metrics");

	if (!json_is_object(o))
		return;
	r->metrics = xcalloc(1, sizeof(*r->metrics));
	for (size_t i = 0; i < metric_count; i++) {
		int64_t value = json_integer_value(json_object_get(o, metric_rows[i].name));

		memcpy((char *)r->metrics + metric_rows[i].offset, &value, sizeof(value));
	}
	r->metrics->tags = tags(json_object_get(j, "stack_tags"));
	r->metrics->leak_thread = MT_NO_THREAD;
	report_clamp_metrics(r->metrics);
}

static enum end read_end(const json_t *v)
{
	const char *key = json_string_value(v);

	for (enum end e = END_UNKNOWN; key && e <= END_RUNNING; e++)
		if (!strcmp(key, end_name(e)))
			return e;
	return END_UNKNOWN;
}

int record_add(struct report *report, const json_t *j, struct err *e)
{
	struct rank rank = { .texts = report->texts }, *x = &rank, *r = x;

	if (!json_is_string(json_object_get(j, "run")) ||
	    !json_is_integer(json_object_get(j, "device")))
		return err_set(e, "a record has no \"run\" or no \"device\"");
#define RANK GET
#include "report/members.def"
	x->trace = x->trace ? x->trace : pooled(r, xstrdup(""));
	x->host = x->host ? x->host : pooled(r, xstrdup(""));
	x->end = read_end(json_object_get(j, "end"));
	read_point(r, &x->peak, json_object_get(j, "peak"));
	read_point(r, &x->device_peak, json_object_get(j, "device_peak"));
	read_lists(x, j);
	read_owners(x, json_object_get(j, "owners"));
	read_versions(x, json_object_get(j, "versions"));
	read_metrics(x, j);
	report->ranks = grow(report->ranks, report->count, &report->room, sizeof(*report->ranks));
	report->ranks[report->count++] = rank;
	return 0;
}

int record_config(struct config *c, const json_t *record, struct err *e)
{
	json_t *o = json_object_get(record, "config");
	const char *key;
	json_t *value;

	json_object_foreach(o, key, value)
	{
		if (!json_is_string(value))
			continue;
		if (config_find(key) >= 0 &&
		    config_set(c, key, json_string_value(value), "record", e) < 0)
			return -1;
	}
	return 0;
}
