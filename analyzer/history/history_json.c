/* The history of runs as data (members.def). */
#include "history/history_json.h"

#include "json/json_util.h"

#include <stdlib.h>
#include <string.h>

#define json_TEXT(v) text(v)
#define json_INTEGER(v) size(v)

static json_t *loaded(const char *column)
{
	json_t *o = json_loads(column ? column : "{}", 0, NULL);

	return o ? o : json_null();
}

static json_t *run_json(const struct history_run *x)
{
	json_t *j = json_object();

#define RUN PUT_MEMBER
#include "history/members.def"
#define X(name, type) set(j, #name, json_##type(x->name));
	HISTORY_COLUMNS(X)
#undef X
	/* These columns have other forms than that of the file. */
	set(j, "simulated", json_boolean(x->simulated != 0));
	set(j, "config", loaded(x->config));
	set(j, "versions", loaded(x->versions));
	return j;
}

static json_t *component_json(const struct history_part *x)
{
	json_t *j = json_object();

#define COMPONENT PUT_MEMBER
#include "history/members.def"
	return j;
}

static json_t *components_json(const struct history_run *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->part_count; i++)
		json_array_append_new(list, component_json(&r->parts[i]));
	return list;
}

static json_t *shown_json(const struct history_run *x)
{
	json_t *j = run_json(x);

#define SHOWN PUT_MEMBER
#include "history/members.def"
	return j;
}

static void put_json(json_t *root, struct buf *out)
{
	char *dumped = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(12));

	if (!dumped)
		BUG("json");
	buf_addf(out, "%s\n", dumped);
	free(dumped);
	json_decref(root);
}

void history_list_json(const struct history_run *runs, size_t count, struct buf *out)
{
	json_t *root = json_object(), *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, run_json(&runs[i]));
	set(root, "runs", list);
	put_json(root, out);
}

void history_pair_json(const struct history_run *a, const struct history_run *b, struct buf *out)
{
	const struct history_run *both[] = { a, b };
	json_t *root = json_object(), *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(both) && both[i]; i++)
		json_array_append_new(list, shown_json(both[i]));
	set(root, "runs", list);
	put_json(root, out);
}

static json_t *spread_json(const struct peak_spread *x)
{
	json_t *j;

	if (!x->count)
		return json_null();
	j = json_object();
#define SPREAD PUT_MEMBER
#include "history/members.def"
	return j;
}

static json_t *all_json(const struct job_trend *t)
{
	return spread_json(&t->all);
}

static json_t *now_json(const struct job_trend *t)
{
	return spread_json(&t->now);
}

static json_t *before_json(const struct job_trend *t)
{
	return spread_json(&t->before);
}

static json_t *ratio_json(const struct ratio_spread *x)
{
	json_t *j;

	if (!x->count)
		return json_null();
	j = json_object();
#define RATIO PUT_MEMBER
#include "history/members.def"
	return j;
}

static json_t *prediction_json(const struct job_trend *t)
{
	return ratio_json(&t->prediction);
}

static json_t *out_of_json(const struct job_trend *of, const struct history_run *x)
{
	json_t *j = json_object();

#define OUT PUT_MEMBER
#include "history/members.def"
	return j;
}

static json_t *out_json(const struct job_trend *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->out_count; i++)
		json_array_append_new(list, out_of_json(t, t->out[i]));
	return list;
}

/* NULL: there is nothing to compare with. */
static const char *change_of(const struct job_trend *t)
{
	int direction = trend_direction(t);

	if (!t->before.count)
		return NULL;
	return direction > 0 ? "more" : direction < 0 ? "less" : "alike";
}

static json_t *trend_json(const struct job_trend *x)
{
	json_t *j = json_object();

#define TREND PUT_MEMBER
#include "history/members.def"
	return j;
}

void history_trend_json(const struct job_trend *trends, size_t count, int days, struct buf *out)
{
	json_t *root = json_object(), *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, trend_json(&trends[i]));
	set(root, "days", json_integer(days));
	set(root, "trends", list);
	put_json(root, out);
}
