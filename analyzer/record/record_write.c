/* A rank as a line of JSON. */
#include "record/record.h"

#include "readers/native.h"
#include "diagnose/diagnose.h"
#include "diagnose/message.h"
#include "report/member_json.h"
#include "util/json_text.h"
#include "util/util.h"
#include "util/version.h"

#include <stdlib.h>
#include <string.h>

#define REMEDIES 3 /* of a finding */
#define WORD_MOST 256
#define MESSAGE_MOST 512
#define TEXT_MOST 2048

/* How many rows of each list a record keeps: the first of these limits under which it is short
 * enough. */
static const struct limits {
	size_t places, steps, points, findings, warnings, fields, failures;
} limits[] = {
	{ 20, 64, 64, 8, 8, SIZE_MAX, 4 },
	{ 10, 16, 16, 4, 4, 64, 1 },
	{ 3, 2, 2, 1, 0, 0, 1 },
	{ 0, 0, 0, 0, 0, 0, 0 },
};

static void set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) < 0)
		BUG("json");
}

/* The first `most` bytes of a text, as valid UTF-8. */
static json_t *text(const char *s, size_t most)
{
	struct buf b = { 0 };
	size_t length;
	json_t *j;

	if (!s)
		return json_null();
	length = strnlen(s, most);
	/* A character is not cut in its middle. */
	while (length && s[length] && utf8_continues(s[length]))
		length--;
	buf_add_utf8(&b, (struct str){ s, length });
	j = json_stringn(b.text ? b.text : "", b.length);
	buf_release(&b);
	return j;
}

#define put_WORD(v) text(v, WORD_MOST)
#define put_OWNED(v) text(v, WORD_MOST)
#define put_MODULE(v) text(v, WORD_MOST)
#define put_TEXT(v) text(v, TEXT_MOST)
#define put_MESSAGE(v) text(v, MESSAGE_MOST)
#define put_NONZERO(v) json_integer(v)
#define PUT(key, type, value, in) PUT_##in(key, type, value)
#define PUT_BOTH(key, type, value) member_set(j, key, put_##type(value));
#define PUT_RECORD(key, type, value) PUT_BOTH(key, type, value)
#define PUT_REPORT(key, type, value)

static json_t *by_category(const bytes *bytes_of)
{
	json_t *o = json_object();

	for (enum category c = 0; c < CATEGORIES; c++)
		if (bytes_of[c])
			set(o, category_key(c), json_integer(bytes_of[c]));
	return o;
}

static json_t *point(const struct point *x)
{
	json_t *j = json_object();

#define POINT PUT
#include "report/members.def"
	set(j, "by_category", by_category(x->by_category));
	return j;
}

static json_t *failure(const struct oom *x)
{
	json_t *j = json_object(), *owners = json_object();

#define OOM PUT
#include "report/members.def"
	set(j, "when", point(&x->when));
	for (enum owner o = 0; o < OWNERS; o++)
		if (x->by_owner[o])
			set(owners, owner_key(o), json_integer(x->by_owner[o]));
	set(j, "by_owner", owners);
	return j;
}

static json_t *step(const struct step_row *x)
{
	json_t *j = json_object();

#define STEP PUT
#include "report/members.def"
	return j;
}

static json_t *phase(const struct phase_row *x)
{
	json_t *j = json_object();

#define PHASE PUT
#include "report/members.def"
	return j;
}

static json_t *place(const struct stack_row *x)
{
	json_t *j = json_object();

#define STACK PUT
#include "report/members.def"
	return j;
}

static json_t *owners(const struct rank *r)
{
	json_t *o = json_object();

	for (size_t i = 0; i < r->owner_count; i++)
		set(o, r->owners[i].key,
		    json_pack("{s:I,s:I}", "peak_bytes", (json_int_t)r->owners[i].peak,
			      "at_peak_bytes", (json_int_t)r->owners[i].at_peak));
	return o;
}

/* The first and the last steps: a leak shows between them, and so does where a job stands. */
static json_t *steps(const struct rank *r, size_t most)
{
	size_t first = RECORD_FIRST_STEPS(most);
	json_t *list = json_array();

	for (size_t i = 0; i < r->step_count; i++)
		if (i < first || i + most - first >= r->step_count)
			json_array_append_new(list, step(&r->steps[i]));
	return list;
}

/* At most `most` points of the curve. */
static json_t *timeline(const struct rank *r, size_t most)
{
	struct timeline_row *rows = xcalloc(r->timeline_count + 1, sizeof(*rows));
	json_t *list = json_array();
	size_t count;

	for (size_t i = 0; i < r->timeline_count; i++)
		rows[i] = r->timeline[i];
	count = timeline_reduce(rows, r->timeline_count, most);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("[o,I,I,o]", put_SECONDS(rows[i].time_s),
						      (json_int_t)rows[i].allocated,
						      (json_int_t)rows[i].reserved,
						      put_BYTES(rows[i].device)));
	free(rows);
	return list;
}

static json_t *metrics(const struct metrics *m)
{
	json_t *o;

	if (!m)
		return json_null();
	o = json_object();
	for (size_t i = 0; i < metric_count; i++) {
		int64_t value = metric_value(m, &metric_rows[i]);

		if (value)
			set(o, metric_rows[i].name, json_integer(value));
	}
	return o;
}

static json_t *tags(stack_tags bits)
{
	json_t *list = json_array();

	for (enum stack_tag t = 0; t < TAGS; t++)
		if ((bits >> t & 1) != 0)
			json_array_append_new(list, json_string(stack_tag_name(t)));
	return list;
}

static json_t *remedy(const struct remedy *x)
{
	json_t *j = json_object();

#define REMEDY(key, type, value) PUT_BOTH(key, type, value)
#include "diagnose/findings.def"
	return j;
}

static json_t *remedies_json(const struct finding *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->remedy_count && i < REMEDIES; i++)
		json_array_append_new(list, remedy(&f->remedies[i]));
	return list;
}

static json_t *finding(const struct finding *x)
{
	json_t *j = json_object();

#define FINDING PUT
#include "diagnose/findings.def"
	return j;
}

static void set_findings(json_t *j, const struct diagnosis *d, size_t at, size_t most)
{
	const struct finding *cause = diagnosis_cause(d, at);
	json_t *list = json_array();

	set(j, "verdict", text(cause ? cause->rule : NULL, WORD_MOST));
	for (size_t i = 0; i < d->count && json_array_size(list) < most; i++) {
		const struct finding *f = &d->findings[i];

		if (f->rank == at && !f->is_informational)
			json_array_append_new(list, finding(f));
	}
	set(j, "findings", list);
}

static void set_texts(json_t *j, const struct rank *r, const struct limits *l)
{
	json_t *versions = json_object(), *warnings = json_array();

	for (size_t i = 0; i < r->version_count && i < l->fields && i < 32; i++) {
		json_t *value = text(r->versions[i].text, WORD_MOST);

		json_set_text(versions, r->versions[i].name, json_string_value(value));
		json_decref(value);
	}
	for (size_t i = 0; i < r->warning_count && i < l->warnings; i++)
		json_array_append_new(warnings, text(r->warnings[i], MESSAGE_MOST));
	set(j, "versions", versions);
	set(j, "warnings", warnings);
}

static void set_config(json_t *j, const struct config *c, const struct rank *r, size_t most)
{
	json_t *o = json_object();
	struct buf model = { 0 };
	char name[17];

	record_fingerprint(c, r->command, name);
	record_model(c, &model);
	set(j, "config_fingerprint", json_string(name));
	set(j, "model", model.length ? text(model.text, WORD_MOST) : json_null());
	for (int f = 0; f < CONFIG_FIELDS && most; f++) {
		struct buf value = { 0 };

		if (!config_has(c, f) || config_is_derived(c, f))
			continue;
		config_value(c, f, &value);
		if (value.length < WORD_MOST)
			set(o, config_name(f), text(value.text ? value.text : "", WORD_MOST));
		most--;
		buf_release(&value);
	}
	set(j, "config", o);
	buf_release(&model);
}

static json_t *estimate_json(const struct record_estimate *e)
{
	json_t *o, *parts;

	if (!e)
		return json_null();
	o = json_object();
	parts = json_object();
	set(o, "system", json_string(e->system));
	set(o, "allocated_bytes", put_BYTES(e->allocated));
	set(o, "reserved_bytes", put_BYTES(e->reserved));
	set(o, "device_bytes", put_BYTES(e->device));
	for (size_t i = 0; i < e->part_count; i++)
		set(parts, e->parts[i].component, json_integer(e->parts[i].bytes));
	set(o, "by_component", parts);
	return o;
}

static json_t *record_json(const struct rank *x, const struct limits *l)
{
	json_t *j = json_object(), *list;

	set(j, RECORD_KEY, json_integer(RECORD_VERSION));
	set(j, "memtrace_version", json_string(MEMTRACE_VERSION));
#define RANK PUT
#include "report/members.def"
	set(j, "end", json_string(end_name(x->end)));
	set(j, "peak", point(&x->peak));
	set(j, "device_peak",
	    x->peak_device == UNKNOWN_BYTES ? json_null() : point(&x->device_peak));
	set(j, "owners", owners(x));
	set(j, "places", list = json_array());
	for (size_t i = 0; i < x->stacks.count && i < l->places; i++)
		json_array_append_new(list, place(&x->stacks.rows[i]));
	set(j, "place_count", put_LONG((uint64_t)(x->stacks.count + x->stacks.left_out)));
	set(j, "oom", list = json_array());
	for (size_t i = 0; i < x->oom_count; i++)
		if (i + l->failures >= x->oom_count)
			json_array_append_new(list, failure(&x->ooms[i]));
	set(j, "step_count",
	    json_integer((json_int_t)x->step_count + (json_int_t)x->steps_left_out));
	set(j, "steps", steps(x, l->steps));
	set(j, "timeline", timeline(x, l->points));
	set(j, "phases", list = json_array());
	for (size_t i = 0; i < x->phase_count && l->places; i++)
		json_array_append_new(list, phase(&x->phases[i]));
	set(j, "metrics", metrics(x->metrics));
	set(j, "stack_tags", tags(x->metrics ? x->metrics->tags : 0));
	return j;
}

void record_write(struct buf *out, const struct rank *r, const struct config *declared,
		  const struct diagnosis *diagnosis, size_t at,
		  const struct record_estimate *estimate)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		json_t *j = record_json(r, &limits[i]);
		char *line;
		size_t length;

		set_texts(j, r, &limits[i]);
		set_config(j, declared, r, limits[i].fields);
		set(j, "estimate", estimate_json(estimate));
		set_findings(j, diagnosis, at, limits[i].findings);
		set(j, "is_shortened", json_boolean(i > 0));
		line = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(12));
		json_decref(j);
		if (!line)
			BUG("json");
		length = strlen(line);
		if (length < RECORD_MAX || i + 1 == ARRAY_SIZE(limits)) {
			buf_add(out, line, length);
			buf_puts(out, "\n");
			free(line);
			return;
		}
		free(line);
	}
}
