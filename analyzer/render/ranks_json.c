/* The ranks of a job as data. */
#include "session/trace_files.h"
#include "report/rank_groups.h"
#include "render/json_util.h"
#include "render/ranks_json.h"

static json_t *layout_json(const struct ranks *job)
{
	json_t *o = json_object();

	if (!job->is_placed) {
		json_decref(o);
		return json_null();
	}
	for (enum axis a = 0; a < AXES; a++)
		set(o, axis_key(a), json_integer(job->layout.size[a]));
	return o;
}

static json_t *groups_json(const struct report *r)
{
	const struct ranks *job = r->as_job;
	json_t *list = json_array();

	for (size_t i = 0; i < job->group_count; i++) {
		const struct rank_group *g = &job->groups[i];
		json_t *row = json_object(), *members = json_array();

		for (size_t k = 0; k < g->count; k++)
			json_array_append_new(members, json_integer(r->ranks[g->ranks[k]].rank));
		set(row, "stage", number(g->stage));
		set(row, "ranks", members);
		for (enum level m = 0; m < LEVELS; m++) {
			json_t *spread = json_object();

			set(spread, "median", size(g->median[m]));
			set(spread, "median_deviation", size(g->deviation[m]));
			set(row, level_key(m), spread);
		}
		set(row, "least_allocated_bytes", json_integer(g->least));
		set(row, "most_allocated_bytes", json_integer(g->most));
		set(row, "worst_rank", json_integer(r->ranks[g->worst].rank));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *outlier_json(const struct rank *of, const struct outlier *x)
{
	json_t *j = json_object();

#define OUTLIER PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *outliers_json(const struct report *r)
{
	const struct ranks *job = r->as_job;
	json_t *list = json_array();

	for (size_t i = 0; i < job->outlier_count; i++)
		json_array_append_new(list, outlier_json(r->ranks, &job->outliers[i]));
	return list;
}

static json_t *positions_json(const struct report *r)
{
	const struct ranks *job = r->as_job;
	json_t *list = json_array();

	for (size_t i = 0; i < r->count; i++) {
		json_t *row;

		if (job->positions[i].group == NO_GROUP)
			continue;
		row = json_object();
		set(row, "rank", json_integer(r->ranks[i].rank));
		for (enum axis a = 0; a < AXES; a++)
			set(row, axis_key(a), number(job->positions[i].coordinates.at[a]));
		set(row, "group", json_integer((json_int_t)job->positions[i].group));
		json_array_append_new(list, row);
	}
	return list;
}

json_t *ranks_json(const struct report *r)
{
	const struct ranks *job = r->as_job;
	json_t *o, *missing, *unreadable;

	if (!job)
		return json_null();
	o = json_object();
	missing = json_array();
	unreadable = json_array();
	set(o, "world_size", json_integer(job->world));
	set(o, "layout", layout_json(job));
	set(o, "seats", positions_json(r));
	set(o, "groups", groups_json(r));
	set(o, "outliers", outliers_json(r));
	for (size_t i = 0; i < job->missing_count; i++)
		json_array_append_new(missing, json_integer(job->missing[i]));
	set(o, "missing_ranks", missing);
	for (size_t i = 0; i < job->unreadable_count; i++) {
		json_t *row = json_object();

		set(row, "trace", text(job->unreadable[i].path));
		set(row, "reason", text(job->unreadable[i].why));
		json_array_append_new(unreadable, row);
	}
	set(o, "unreadable", unreadable);
	return o;
}

static json_t *run_json(const struct recorded_run *run)
{
	json_t *j = json_object();

	set(j, "run", text(run->name));
	set(j, "choice", text(run->choice));
	set(j, "restart_count", json_integer(run->restart));
	set(j, "start_time_s", json_real((double)run->began_ns / 1e9));
	set(j, "ranks", json_integer((json_int_t)run->ranks));
	set(j, "world_size", run->world_size > 0 ? json_integer(run->world_size) : json_null());
	set(j, "traces", json_integer((json_int_t)run->traces));
	set(j, "end", text(run_end_key(run->end)));
	set(j, "traces_out_of_memory", json_integer((json_int_t)run->ooms));
	set(j, "peak_allocated_bytes", json_integer(run->peak_allocated));
	set(j, "peak_device_bytes", size(run->peak_device));
	set(j, "shown", json_boolean(run->is_latest));
	return j;
}

void runs_json(const struct recorded_run *runs, size_t count, struct buf *out)
{
	json_t *root = json_object(), *list = json_array();
	char *dumped;

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, run_json(&runs[i]));
	set(root, "runs", list);
	dumped = json_dumps(root, JSON_INDENT(1));
	if (!dumped)
		BUG("json");
	buf_addf(out, "%s\n", dumped);
	free(dumped);
	json_decref(root);
}
