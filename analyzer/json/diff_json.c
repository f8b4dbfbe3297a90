#include "json/diff_json.h"
#include "json/json_util.h"

static json_t *item_json(const struct diff_item *i)
{
	static const char *const names[SIDES][4] = {
		{ "a_bytes", "a_least_bytes", "a_most_bytes", "a_value" },
		{ "b_bytes", "b_least_bytes", "b_most_bytes", "b_value" },
	};
	json_t *o = json_object();

	set(o, "kind", text(diff_kind_name(i->kind)));
	set(o, "name", text(i->name));
	for (int s = 0; s < SIDES; s++) {
		int is_text = i->kind == DIFF_CONFIG;

		set(o, names[s][0], is_text ? json_null() : size(i->side[s].median));
		if (is_text) {
			set(o, names[s][3], text(i->side[s].text));
			continue;
		}
		set(o, names[s][1], size(i->side[s].least));
		set(o, names[s][2], size(i->side[s].most));
	}
	set(o, "changed", json_boolean(i->is_changed));
	return o;
}

static json_t *side_json(const struct diff_side *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->count; i++) {
		const struct rank *r = s->ranks[i];
		json_t *row = json_object();

		set(row, "run_id", text(r->run_id));
		set(row, "restart_count",
		    r->restart_count == NO_RANK ? json_null() : json_integer(r->restart_count));
		set(row, "rank", r->rank == NO_RANK ? json_null() : json_integer(r->rank));
		set(row, "trace", text(r->trace));
		set(row, "simulated", json_boolean(r->simulated));
		if (r->peak_of != PEAK_OF_JOB)
			set(row, "peak_of", text(peak_scope_key(r->peak_of)));
		json_array_append_new(list, row);
	}
	return list;
}

void diff_json(const struct diff *c, int has_limit, int is_over, struct buf *out)
{
	json_t *root = json_object(), *items = json_array();

	set(root, "a", side_json(&c->side[SIDE_A]));
	set(root, "b", side_json(&c->side[SIDE_B]));
	for (size_t i = 0; i < c->count; i++)
		json_array_append_new(items, item_json(&c->items[i]));
	set(root, "items", items);
	set(root, "over", has_limit ? json_boolean(is_over) : json_null());
	if (json_dump_callback(root, add_json_part, out, JSON_INDENT(1)) < 0)
		BUG("json");
	buf_puts(out, "\n");
	json_decref(root);
}
