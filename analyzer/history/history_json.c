/* The history of runs as data. */
#include "history/history_json.h"

#include "json/json_util.h"

#include <stdlib.h>
#include <string.h>

#define json_TEXT(v) text(v)
#define json_INTEGER(v) size(v)

static json_t *run_json(const struct history_run *r)
{
	json_t *j = json_object(), *o;

	set(j, "id", size(r->id));
#define X(name, type) set(j, #name, json_##type(r->name));
	HISTORY_COLUMNS(X)
#undef X
	set(j, "simulated", json_boolean(r->simulated != 0));
	o = json_loads(r->config ? r->config : "{}", 0, NULL);
	set(j, "config", o ? o : json_null());
	o = json_loads(r->versions ? r->versions : "{}", 0, NULL);
	set(j, "versions", o ? o : json_null());
	return j;
}

static json_t *parts_json(const struct history_run *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->part_count; i++)
		json_array_append_new(list, json_pack("{s:o,s:o,s:o}", "component",
						      text(r->parts[i].component), "peak_bytes",
						      size(r->parts[i].observed), "estimated_bytes",
						      size(r->parts[i].estimated)));
	return list;
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

	for (size_t i = 0; i < ARRAY_SIZE(both) && both[i]; i++) {
		json_t *j = run_json(both[i]);

		set(j, "components", parts_json(both[i]));
		json_array_append_new(list, j);
	}
	set(root, "runs", list);
	put_json(root, out);
}

static json_t *spread_json(const struct peak_spread *s)
{
	if (!s->count)
		return json_null();
	return json_pack("{s:I,s:I,s:I}", "runs", (json_int_t)s->count, "median_bytes",
			 (json_int_t)s->median, "median_deviation_bytes", (json_int_t)s->deviation);
}

static json_t *trend_json(const struct job_trend *t)
{
	const struct history_run *r = t->runs[0];
	const struct ratio_spread *s = &t->prediction;
	json_t *j = json_object(), *out = json_array();
	int direction = trend_direction(t);

	set(j, "job", text(r->job));
	set(j, "model", text(r->model));
	set(j, "simulated", json_boolean(r->simulated != 0));
	set(j, "measure", text(t->of_device ? "device" : "allocated"));
	set(j, "all", spread_json(&t->all));
	set(j, "now", spread_json(&t->now));
	set(j, "before", spread_json(&t->before));
	set(j, "change",
	    text(!t->before.count ? NULL
		 : direction > 0  ? "more"
		 : direction < 0  ? "less"
				  : "alike"));
	set(j, "prediction",
	    s->count ? json_pack("{s:I,s:f,s:f}", "runs", (json_int_t)s->count, "median_ratio",
				 s->median, "median_deviation", s->deviation)
		     : json_null());
	for (size_t i = 0; i < t->out_count; i++)
		json_array_append_new(out,
				      json_pack("{s:I,s:o,s:I}", "id", (json_int_t)t->out[i]->id,
						"run", text(t->out[i]->run), "bytes",
						(json_int_t)trend_bytes(t, t->out[i])));
	set(j, "out", out);
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
