#include "render/report_json.h"

#include "render/findings.h"
#include "render/json_util.h"
#include "render/owners_text.h"
#include "render/ranks_json.h"

#include <string.h>

static json_t *stacks_json(const struct stacks *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->count; i++) {
		json_t *row = json_object();

		set(row, "stack", text(s->rows[i].stack));
		set(row, "frame", text(s->rows[i].label));
		set(row, "backward_of", text(s->rows[i].backward_of));
		set(row, "module", text(*s->rows[i].module ? s->rows[i].module : NULL));
		set(row, "category", text(category_key(s->rows[i].category)));
		set(row, "bytes", json_integer(s->rows[i].bytes));
		set(row, "blocks", json_integer((json_int_t)s->rows[i].blocks));
		json_array_append_new(list, row);
	}
	return list;
}

/* Is it known who held what at the device's peak? */
static int knows_owners(const struct rank *r)
{
	return r->peak_device != UNKNOWN_BYTES && !r->device_peak.unrecorded;
}

/* What everyone held at the device's peak; null where that is not in the trace. */
static json_t *by_owner_json(const struct rank *r)
{
	json_t *o = knows_owners(r) ? json_object() : json_null();

	for (size_t i = 0; json_is_object(o) && i < r->owner_count; i++)
		if (r->owners[i].at_peak || r->owners[i].is_always_listed)
			set(o, r->owners[i].key, json_integer(r->owners[i].at_peak));
	return o;
}

/* The bounds of a peak that is modelled. */
static void set_bounds(json_t *row, const struct rank *r, const struct owner_row *o)
{
	bytes low, high;

	modelled_bounds(r, o->key, o->peak, &low, &high);
	set(row, "low_bytes", json_integer(low));
	set(row, "high_bytes", json_integer(high));
}

static json_t *owners_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->owner_count; i++) {
		json_t *row = json_object();

		set(row, "owner", text(r->owners[i].key));
		set(row, "peak_bytes", json_integer(r->owners[i].peak));
		set(row, "at_peak_bytes",
		    knows_owners(r) ? json_integer(r->owners[i].at_peak) : json_null());
		if (is_modelled(r, r->owners[i].key))
			set_bounds(row, r, &r->owners[i]);
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *id(int64_t n)
{
	return n < 0 ? json_null() : json_integer(n);
}

static json_t *comms_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->comm_count; i++) {
		const struct comm_row *c = &r->comms[i];
		json_t *row = json_object();

		set(row, "id", id(c->id));
		set(row, "size", number(c->size));
		set(row, "rank", number(c->rank));
		set(row, "parent", id(c->parent));
		set(row, "bytes", json_integer(c->bytes));
		set(row, "used_bytes", json_integer(c->used));
		set(row, "created_s", json_real(c->created_s));
		set(row, "destroyed_s", c->destroyed ? json_real(c->destroyed_s) : json_null());
		json_array_append_new(list, row);
	}
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

static json_t *named_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->named_count; i++) {
		const struct named_row *n = &r->named[i];
		json_t *row = json_object();

		set(row, "path", path_json(n));
		set(row, "times", json_integer((json_int_t)n->times));
		set(row, "first_s", json_real(n->first_s));
		set(row, "peak_bytes", json_integer(n->peak));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *moments_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->moment_count; i++) {
		const struct moment_row *m = &r->moments[i];
		json_t *row = json_object();

		set(row, "name", text(m->name));
		set(row, "time_s", json_real(m->time_s));
		set(row, "allocated_bytes", json_integer(m->allocated));
		set(row, "peak_before_bytes", json_integer(m->peak));
		json_array_append_new(list, row);
	}
	return list;
}

static void set_moment(json_t *j, const struct point *p)
{
	set(j, "time_s", p->unrecorded ? json_null() : json_real(p->time_s));
	set(j, "step", p->unrecorded || !p->step ? json_null() : json_integer(p->step));
	set(j, "phase", text(p->unrecorded ? NULL : p->phase));
	set(j, "part", text(p->unrecorded ? NULL : p->part));
	set(j, "thread", text(p->unrecorded ? NULL : p->thread));
	set(j, "named_phase", path_json(p->unrecorded ? NULL : p->named));
	set(j, "by_category", by_category_json(p));
}

/* Which of the peaks are known from the running counters alone. */
static json_t *not_in_trace_json(const struct rank *r)
{
	json_t *list = json_array();

	if (r->peak.unrecorded)
		json_array_append_new(list, text("allocated"));
	if (r->device_peak.unrecorded)
		json_array_append_new(list, text("device"));
	return list;
}

static json_t *peak_json(const struct rank *r)
{
	json_t *p = json_object();

	if (r->peak_of != PEAK_OF_JOB)
		set(p, "of", text(peak_scope_key(r->peak_of)));
	set(p, "allocated_bytes", json_integer(r->peak_allocated));
	set(p, "reserved_bytes", json_integer(r->peak_reserved));
	set(p, "device_bytes", size(r->peak_device));
	set_moment(p, &r->peak);
	set(p, "device_time_s", knows_owners(r) ? json_real(r->device_peak.time_s) : json_null());
	set(p, "by_owner", by_owner_json(r));
	set(p, "not_in_trace", not_in_trace_json(r));
	set(p, "blocks", json_integer((json_int_t)r->stacks.blocks));
	set(p, "stacks", stacks_json(&r->stacks));
	return p;
}

static json_t *failure_owners_json(const struct rank *r, const struct oom *o)
{
	json_t *j = r->peak_device == UNKNOWN_BYTES ? json_null() : json_object();

	for (enum owner k = 0; json_is_object(j) && k < OWNERS; k++)
		if (o->by_owner[k] || k == OWNER_UNEXPLAINED)
			set(j, owner_key(k), json_integer(o->by_owner[k]));
	return j;
}

static json_t *oom_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->oom_count; i++) {
		const struct oom *o = &r->ooms[i];
		json_t *j = json_object();

		set_moment(j, &o->when);
		set(j, "requested_bytes", json_integer(o->requested));
		set(j, "allocated_bytes", json_integer(o->when.allocated));
		set(j, "reserved_bytes", json_integer(o->when.reserved));
		set(j, "free_bytes", size(o->free));
		set(j, "largest_free_bytes", size(o->largest_free));
		set(j, "by_owner", failure_owners_json(r, o));
		set(j, "survived", survival_json(o->survived));
		set(j, "refused_to", text(o->by));
		set(j, "stacks", stacks_json(&o->stacks));
		json_array_append_new(list, j);
	}
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

static json_t *steps_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->step_count; i++) {
		const struct step_row *s = &r->steps[i];
		json_t *row = json_object();

		set(row, "step", json_integer(s->step));
		set(row, "start_s", json_real(s->start_s));
		set(row, "end_s", json_real(s->end_s));
		set(row, "floor_bytes", json_integer(s->floor));
		set(row, "peak_bytes", json_integer(s->peak));
		set(row, "peak_phase", text(s->peak_phase));
		set(row, "reserved_bytes", json_integer(s->reserved));
		set(row, "device_bytes", size(s->device));
		set(row, "forwards", json_integer(s->forwards));
		set(row, "backwards", json_integer(s->backwards));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *phases_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->phase_count; i++) {
		const struct phase_row *p = &r->phases[i];
		json_t *row = json_object();

		set(row, "phase", text(p->phase));
		set(row, "peak_bytes", json_integer(p->peak));
		set(row, "time_s", json_real(p->time_s));
		set(row, "step", p->step ? json_integer(p->step) : json_null());
		json_array_append_new(list, row);
	}
	return list;
}

/* Where each phase begins. */
static json_t *spans_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->span_count; i++)
		json_array_append_new(list,
				      json_pack("[f,I,s]", r->spans[i].start_s,
						(json_int_t)r->spans[i].step, r->spans[i].phase));
	return list;
}

static json_t *live_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->live_count; i++) {
		json_t *row = json_object();

		set(row, "address", json_integer((json_int_t)r->live[i].address));
		set(row, "bytes", json_integer(r->live[i].bytes));
		set(row, "stack", text(r->live[i].stack));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *versions_json(const struct rank *r)
{
	json_t *o = json_object();

	for (size_t i = 0; i < r->version_count; i++)
		set(o, r->versions[i].name, text(r->versions[i].text));
	return o;
}

static json_t *lost_json(const struct rank *r)
{
	return json_pack("{s:I,s:I,s:o}", "events", (json_int_t)r->lost_events, "places",
			 (json_int_t)r->lost_stacks, "reason", text(r->lost_reason));
}

static json_t *warnings_json(const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->warning_count; i++)
		json_array_append_new(list, text(r->warnings[i]));
	return list;
}

static void set_identity(json_t *j, const struct rank *r)
{
	set(j, "rank", json_integer(rank_number(r->rank)));
	set(j, "local_rank", number(r->local_rank));
	set(j, "world_size", number(r->world_size));
	set(j, "restart_count", number(r->restart_count));
	set(j, "run_id", text(r->run_id));
	set(j, "device", json_integer(r->device));
	set(j, "host", text(r->host));
	set(j, "pid", json_integer(r->pid));
	set(j, "trace", text(r->trace));
	set(j, "command", text(r->command));
	set(j, "versions", versions_json(r));
	set(j, "simulated", json_boolean(r->simulated));
	set(j, "gpu", text(r->gpu));
	set(j, "gpu_uuid", text(r->gpu_uuid));
	set(j, "gpu_pci_bus_id", text(r->gpu_pci));
	set(j, "device_memory_bytes", size(r->total));
}

/* The processes of other ranks that are on the same GPU. */
static json_t *sharers_json(const struct report *report, const struct rank *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct rank *other = &report->ranks[i];
		json_t *o;

		if (other == r || !rank_shares_gpu(r, other))
			continue;
		o = json_object();
		set(o, "rank", number(other->rank));
		set(o, "pid", json_integer(other->pid));
		set(o, "device", json_integer(other->device));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *rank_json(const struct report *report, size_t index)
{
	const struct rank *r = &report->ranks[index];
	json_t *j = json_object(), *final = json_object();

	set_identity(j, r);
	set(j, "shares_gpu_with", sharers_json(report, r));
	set(j, "end", text(end_name(r->end)));
	set(j, "exit_status",
	    r->ended && r->exit_status >= 0 ? json_integer(r->exit_status) : json_null());
	set(j, "start_time_s", json_real((double)r->start_realtime_ns / 1e9));
	set(j, "duration_s", json_real(r->duration_s));
	set(j, "events", json_integer((json_int_t)r->events));
	set(j, "tensor_allocs", json_integer((json_int_t)r->tensor_allocs));
	set(j, "tensor_frees", json_integer((json_int_t)r->tensor_frees));
	set(j, "counted_from", text(r->counted_from_runtime ? "cudaMallocAsync" : "allocator"));
	set(j, "peak", peak_json(r));
	set(j, "owners", owners_json(r));
	set(j, "communicators", comms_json(r));
	set(j, "communicator_count", json_integer((json_int_t)r->comms_seen));
	set(j, "imported_peak_bytes", size(r->imported_peak));
	set(j, "managed_peak_bytes", size(r->managed_peak));
	set(j, "host_pinned_peak_bytes", size(r->host_pinned_peak));
	set(j, "host_registered_peak_bytes", size(r->host_registered_peak));
	set(j, "oom", oom_json(r));
	set(j, "need", need_json(report, r));
	set(j, "inference", inference_json(r));
	set(j, "oom_count", json_integer((json_int_t)r->ooms_seen));
	set(final, "allocated_bytes", json_integer(r->final_bytes));
	set(final, "reserved_bytes", json_integer(r->final_reserved));
	set(final, "blocks", json_integer((json_int_t)r->final_blocks));
	set(j, "final", final);
	set(j, "steps", steps_json(r));
	set(j, "phases", phases_json(r));
	set(j, "steps_marked", json_boolean(r->steps_marked));
	set(j, "asked_phase", text(r->asked_phase));
	set(j, "named_phases", named_json(r));
	set(j, "moments", moments_json(r));
	set(j, "phase_starts", spans_json(r));
	set(j, "timeline", timeline_json(r));
	set(j, "lost", lost_json(r));
	set(j, "warnings", warnings_json(r));
	if (r->has_live)
		set(j, "live", live_json(r));
	return j;
}

static int add_part(const char *part, size_t length, void *out)
{
	buf_add(out, part, length);
	return 0;
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
	if (json_dump_callback(j, add_part, &p->value, JSON_INDENT(1) | JSON_ENCODE_ANY) < 0)
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
