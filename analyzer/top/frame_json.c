#include "top/frame_json.h"

#include <stdlib.h>

#include "json/json_util.h"

static json_t *count(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static json_t *seconds(double s)
{
	return s < 0 ? json_null() : json_real(s);
}

static void set_tail(json_t *j, const struct live_device *d)
{
	const struct live_tail *t = &d->tail;
	json_t *categories = json_object(), *owners = json_object();
	int64_t left = live_steps_until_full(d);
	int is_known = t->trend.steps >= TREND_LEAST;

	for (enum category c = 0; c < CATEGORIES && t->is_known; c++)
		set(categories, category_key(c), json_integer(t->by_category[c]));
	for (enum owner o = 0; o < OWNERS && t->is_known; o++)
		if (t->by_owner[o])
			set(owners, owner_key(o), json_integer(t->by_owner[o]));
	set(j, "step", t->step ? json_integer(t->step) : json_null());
	set(j, "growth_per_step_bytes", is_known ? json_integer(t->trend.growth) : json_null());
	set(j, "steps_until_full", left < 0 ? json_null() : json_integer(left));
	set(j, "step_s", is_known ? json_real(t->trend.step_s) : json_null());
	set(j, "recent_peak_bytes", t->is_known ? json_integer(t->peak) : json_null());
	set(j, "by_category", categories);
	set(j, "by_owner", owners);
}

static void set_device(json_t *j, const struct live_device *d)
{
	json_t *peak = json_object();

	set(j, "device", json_integer(d->ordinal));
	set(j, "device_memory_bytes", d->total ? json_integer(d->total) : json_null());
	set(j, "allocated_bytes", json_integer(d->allocated));
	set(j, "reserved_bytes", json_integer(d->reserved));
	set(j, "other_bytes", json_integer(d->other));
	set(j, "untracked_bytes", json_integer(d->untracked));
	set(j, "device_bytes", json_integer(live_device_bytes(d)));
	set(peak, "allocated_bytes", json_integer(d->allocated_peak));
	set(peak, "reserved_bytes", json_integer(d->reserved_peak));
	set(peak, "device_bytes", json_integer(d->device_peak));
	set(j, "peak", peak);
	set(j, "allocs", count(d->allocs));
	set(j, "frees", count(d->frees));
	set(j, "ooms", count(d->ooms));
	set(j, "refused", count(d->refused));
	set_tail(j, d);
}

static json_t *row_json(const struct process_row *r)
{
	const struct live_process *p = r->process;
	json_t *j = json_object();

	set(j, "trace", text(p->path));
	set(j, "state", text(live_state_key(p->state)));
	if (p->why) {
		set(j, "why", text(p->why));
		return j;
	}
	set(j, "rank", number(p->rank));
	set(j, "local_rank", number(p->local_rank));
	set(j, "world_size", number(p->world_size));
	set(j, "run", text(p->run));
	set(j, "restart", json_integer(p->restart));
	set(j, "host", text(p->host));
	set(j, "pid", json_integer(p->pid));
	set(j, "simulated", json_boolean(p->simulated));
	set(j, "exit_status", p->exit_status < 0 ? json_null() : json_integer(p->exit_status));
	set(j, "duration_s", seconds(p->duration_s));
	set(j, "age_s", seconds(p->age_s));
	set(j, "records", count(p->records));
	set(j, "lost_events", count(p->lost_events));
	if (r->device)
		set_device(j, r->device);
	return j;
}

void frame_json(const struct folder *f, const struct row_choice *c, struct buf *out)
{
	json_t *j = json_object(), *list = json_array();
	size_t rows_count;
	struct process_row *rows = live_rows(f, c, &rows_count);
	char *line;

	for (size_t i = 0; i < rows_count; i++)
		if (json_array_append_new(list, row_json(&rows[i])) < 0)
			BUG("json");
	set(j, "time_s", json_real(f->time_s));
	set(j, "directory", text(f->path));
	set(j, "ranks", list);
	line = json_dumps(j, JSON_COMPACT);
	if (!line)
		BUG("json");
	buf_puts(out, line);
	buf_puts(out, "\n");
	free(line);
	free(rows);
	json_decref(j);
}
