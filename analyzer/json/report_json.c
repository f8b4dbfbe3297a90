#include "json/report_json.h"

#include "diagnose/diagnose.h"
#include "json/findings_json.h"
#include "json/json_util.h"
#include "render/owners_text.h"
#include "json/ranks_json.h"

#include <string.h>

static json_t *stack_json(const struct stack_row *x)
{
	json_t *j = json_object();

#define STACK PUT
#include "report/members.def"
	return j;
}

static json_t *stacks_json(const struct stacks *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->count; i++)
		json_array_append_new(list, stack_json(&s->rows[i]));
	return list;
}

/* Is it known who held what at the device's peak? */
static int has_owners(const struct rank *r)
{
	return r->peak_device != UNKNOWN_BYTES && !r->device_peak.unrecorded;
}

/* The bytes of each owner at the device's peak; null if the trace lacks that moment. */
static json_t *by_owner_json(const struct rank *r)
{
	json_t *o = has_owners(r) ? json_object() : json_null();

	for (size_t i = 0; json_is_object(o) && i < r->owner_count; i++)
		if (r->owners[i].at_peak || r->owners[i].is_always_listed)
			set(o, r->owners[i].key, json_integer(r->owners[i].at_peak));
	return o;
}

static json_t *at_peak_json(const struct rank *r, const struct owner_row *o)
{
	return has_owners(r) ? json_integer(o->at_peak) : json_null();
}

/* A bound of a peak that is modelled; NULL if it is not. */
static json_t *bound_json(const struct rank *r, const struct owner_row *o, int is_high)
{
	bytes low, high;

	if (!is_modelled(r, o->key))
		return NULL;
	modelled_bounds(r, o->key, o->peak, &low, &high);
	return json_integer(is_high ? high : low);
}

static json_t *low_json(const struct rank *r, const struct owner_row *o)
{
	return bound_json(r, o, 0);
}

static json_t *high_json(const struct rank *r, const struct owner_row *o)
{
	return bound_json(r, o, 1);
}

static json_t *owner_json(const struct rank *of, const struct owner_row *x)
{
	json_t *j = json_object();

#define OWNER_ROW PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *owners_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->owner_count; i++)
		json_array_append_new(list, owner_json(r, &r->owners[i]));
	return list;
}

static json_t *destroyed_json(const struct comm_row *c)
{
	return c->destroyed ? json_real(c->destroyed_s) : json_null();
}

static json_t *comm_json(const struct comm_row *x)
{
	json_t *j = json_object();

#define COMM PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *comms_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->comm_count; i++)
		json_array_append_new(list, comm_json(&r->comms[i]));
	return list;
}

static json_t *by_category_json(const struct point *p)
{
	json_t *o = json_object();

	for (enum category c = 0; c < CATEGORIES; c++)
		set(o, category_key(c), json_integer(p->by_category[c]));
	return o;
}

/* The names of a phase and of those around it, the outermost first. */
static json_t *path_json(const struct named_row *row)
{
	json_t *path = row ? json_array() : json_null();

	for (; row; row = row->within)
		json_array_insert_new(path, 0, text(row->name));
	return path;
}

static json_t *named_row_json(const struct named_row *x)
{
	json_t *j = json_object();

#define NAMED PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *named_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->named_count; i++)
		json_array_append_new(list, named_row_json(&r->named[i]));
	return list;
}

static json_t *moment_json(const struct moment_row *x)
{
	json_t *j = json_object();

#define MOMENT PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *moments_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->moment_count; i++)
		json_array_append_new(list, moment_json(&r->moments[i]));
	return list;
}

static json_t *time_json(const struct point *p)
{
	return p->unrecorded ? json_null() : json_real(p->time_s);
}

static json_t *named_phase_json(const struct point *p)
{
	return path_json(p->unrecorded ? NULL : p->named);
}

static void set_moment(json_t *j, const struct point *x)
{
#define WHEN PUT_MEMBER
#include "report/members.def"
}

static json_t *device_time_json(const struct rank *r)
{
	return has_owners(r) ? json_real(r->device_peak.time_s) : json_null();
}

/* The peaks that are known from the running counters alone. */
static json_t *not_in_trace_json(const struct rank *r)
{
	json_t *list = json_array();

	if (r->peak.unrecorded)
		json_array_append_new(list, text("allocated"));
	if (r->device_peak.unrecorded)
		json_array_append_new(list, text("device"));
	return list;
}

static json_t *peak_stacks_json(const struct rank *r)
{
	return stacks_json(&r->stacks);
}

static json_t *peak_json(const struct rank *x)
{
	json_t *j = json_object();

#define PEAK PUT_MEMBER
#include "report/members.def"
	set_moment(j, &x->peak);
#define AT_PEAK PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *failure_owners_json(const struct rank *r, const struct oom *o)
{
	json_t *j = r->peak_device == UNKNOWN_BYTES ? json_null() : json_object();

	for (enum owner k = 0; json_is_object(j) && k < OWNERS; k++)
		if (o->by_owner[k] || k == OWNER_UNEXPLAINED)
			set(j, owner_key(k), json_integer(o->by_owner[k]));
	return j;
}

static json_t *oom_stacks_json(const struct oom *o)
{
	return stacks_json(&o->stacks);
}

static json_t *oom_json(const struct rank *of, const struct oom *x)
{
	json_t *j = json_object();

	set_moment(j, &x->when);
#define OOM PUT
#include "report/members.def"
	return j;
}

static json_t *ooms_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->oom_count; i++)
		json_array_append_new(list, oom_json(r, &r->ooms[i]));
	return list;
}

static json_t *timeline_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->timeline_count; i++) {
		const struct timeline_row *t = &r->timeline[i];

		json_array_append_new(list,
				      json_pack("[f,I,I,o]", t->time_s, (json_int_t)t->allocated,
						(json_int_t)t->reserved, size(t->device)));
	}
	return list;
}

static json_t *step_json(const struct step_row *x)
{
	json_t *j = json_object();

#define STEP PUT
#include "report/members.def"
	return j;
}

static json_t *steps_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->step_count; i++)
		json_array_append_new(list, step_json(&r->steps[i]));
	return list;
}

static json_t *phase_json(const struct phase_row *x)
{
	json_t *j = json_object();

#define PHASE PUT
#include "report/members.def"
	return j;
}

static json_t *phases_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->phase_count; i++)
		json_array_append_new(list, phase_json(&r->phases[i]));
	return list;
}

/* The beginnings of the phases. */
static json_t *spans_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->span_count; i++)
		json_array_append_new(list,
				      json_pack("[f,I,s]", r->spans[i].start_s,
						(json_int_t)r->spans[i].step, r->spans[i].phase));
	return list;
}

static json_t *live_row_json(const struct live_row *x)
{
	json_t *j = json_object();

#define LIVE PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *live_json(const struct rank *r)
{
	json_t *list = r->has_live ? json_array() : NULL;

	for (size_t i = 0; r->has_live && i < r->live_count; i++)
		json_array_append_new(list, live_row_json(&r->live[i]));
	return list;
}

static json_t *versions_json(const struct rank *r)
{
	json_t *o = json_object();

	for (size_t i = 0; i < r->version_count; i++)
		set(o, r->versions[i].name, text(r->versions[i].text));
	return o;
}

static json_t *lost_json(const struct rank *x)
{
	json_t *j = json_object();

#define LOST PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *warnings_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->warning_count; i++)
		json_array_append_new(list, text(r->warnings[i]));
	return list;
}

static json_t *final_json(const struct rank *x)
{
	json_t *j = json_object();

#define FINAL PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *exit_status_json(const struct rank *r)
{
	return r->ended && r->exit_status >= 0 ? json_integer(r->exit_status) : json_null();
}

static json_t *sharer_json(const struct rank *x)
{
	json_t *j = json_object();

#define SHARER PUT_MEMBER
#include "report/members.def"
	return j;
}

/* The processes of other ranks that are on the same GPU. */
static json_t *sharers_json(const struct report *report, const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->count; i++)
		if (&report->ranks[i] != r && rank_shares_gpu(r, &report->ranks[i]))
			json_array_append_new(list, sharer_json(&report->ranks[i]));
	return list;
}

static json_t *rank_json(const struct report *of, size_t index)
{
	const struct rank *x = &of->ranks[index];
	json_t *j = json_object();

#define RANK PUT
#include "report/members.def"
	return j;
}

/* A report that is being written, as jansson writes the whole of it: for many ranks that would take
 * gigabytes of memory. */
struct parts {
	report_json_write *write;
	report_json_edit *edit; /* NULL: the values stay as they are */
	void *context;
	struct buf value, text;
	int status; /* of the last write() */
};

/* Adds a value, with its lines `depth` deep. No line end is inside a string. */
static void add_value(struct parts *p, json_t *j, int depth)
{
	char *at, *line;

	if (p->edit)
		p->edit(p->context, j);
	p->value.length = 0;
	if (json_dump_callback(j, add_json_part, &p->value, JSON_INDENT(1) | JSON_ENCODE_ANY) < 0)
		BUG("json");
	json_decref(j);
	for (at = p->value.text; (line = strchr(at, '\n')); at = line + 1) {
		buf_add(&p->text, at, (size_t)(line + 1 - at));
		buf_addf(&p->text, "%*s", depth, "");
	}
	buf_puts(&p->text, at);
}

/* Writes what was added. */
static void write_text(struct parts *p)
{
	if (!p->status)
		p->status = p->write(p->context, p->text.text, p->text.length);
	p->text.length = 0;
}

static void write_list(struct parts *p, const char *key, const struct report *report,
		       json_t *row(const struct report *report, size_t index), size_t count)
{
	buf_addf(&p->text, " \"%s\": [", key);
	for (size_t i = 0; i < count && !p->status; i++) {
		buf_puts(&p->text, i ? ",\n  " : "\n  ");
		add_value(p, row(report, i), 2);
		write_text(p);
	}
	buf_puts(&p->text, count ? "\n ],\n" : "],\n");
}

int report_json_each(const struct report *report, report_json_write *write, report_json_edit *edit,
		     void *context)
{
	struct parts p = { .write = write, .edit = edit, .context = context };

	buf_puts(&p.text, "{\n");
	write_list(&p, "ranks", report, rank_json, report->count);
	write_list(&p, "findings", report, finding_json,
		   report->diagnosis ? report->diagnosis->count : 0);
	buf_puts(&p.text, " \"job\": ");
	add_value(&p, ranks_json(report), 1);
	buf_puts(&p.text, "\n}\n");
	write_text(&p);
	buf_release(&p.text);
	buf_release(&p.value);
	return p.status;
}

static int keep(void *out, const char *text, size_t length)
{
	buf_add(out, text, length);
	return 0;
}

void report_json(const struct report *report, struct buf *out)
{
	report_json_each(report, keep, NULL, out);
}
