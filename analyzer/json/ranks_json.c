/* The ranks of a job as data. */
#include "session/trace_files.h"
#include "report/rank_groups.h"
#include "json/json_util.h"
#include "json/ranks_json.h"

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

static json_t *members_json(const struct report *r, const struct rank_group *g)
{
	json_t *list = json_array();

	for (size_t i = 0; i < g->count; i++)
		json_array_append_new(list, json_integer(r->ranks[g->ranks[i]].rank));
	return list;
}

static json_t *spread_json(const struct rank_group *x, enum level level)
{
	json_t *j = json_object();

#define SPREAD PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *group_json(const struct report *of, const struct rank_group *x)
{
	json_t *j = json_object();

#define put_SPREAD(level) spread_json(x, level)
#define GROUP PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *groups_json(const struct report *r, const struct ranks *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->group_count; i++)
		json_array_append_new(list, group_json(r, &job->groups[i]));
	return list;
}

static json_t *outlier_json(const struct rank *of, const struct outlier *x)
{
	json_t *j = json_object();

#define OUTLIER PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *outliers_json(const struct report *r, const struct ranks *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->outlier_count; i++)
		json_array_append_new(list, outlier_json(r->ranks, &job->outliers[i]));
	return list;
}

static json_t *positions_json(const struct report *r, const struct ranks *job)
{
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

static json_t *missing_json(const struct ranks *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->missing_count; i++)
		json_array_append_new(list, json_integer(job->missing[i]));
	return list;
}

static json_t *unreadable_file_json(const struct unreadable_file *x)
{
	json_t *j = json_object();

#define UNREADABLE PUT_MEMBER
#include "report/members.def"
	return j;
}

static json_t *unreadable_json(const struct ranks *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->unreadable_count; i++)
		json_array_append_new(list, unreadable_file_json(&job->unreadable[i]));
	return list;
}

static json_t *job_json(const struct report *of, const struct ranks *x)
{
	json_t *j = json_object();

#define JOB PUT_MEMBER
#include "report/members.def"
	return j;
}

json_t *ranks_json(const struct report *r)
{
	return r->as_job ? job_json(r, r->as_job) : json_null();
}

static json_t *run_json(const struct recorded_run *x)
{
	json_t *j = json_object();

#define RUN PUT_MEMBER
#include "session/runs.def"
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
