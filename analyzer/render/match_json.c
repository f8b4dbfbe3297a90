#include "render/json_util.h"
#include "render/inference_output.h"
#include "render/match_json.h"

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *components_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->component_count; i++) {
		const struct match_component *c = &m->components[i];
		json_t *row = json_object();

		set(row, "component", text(c->key));
		set(row, "estimated_bytes", json_integer(c->estimated));
		set(row, "observed_bytes", json_integer(c->observed));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *terms_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->term_count; i++) {
		const struct match_term *t = &m->terms[i];
		json_t *row = json_object();

		set(row, "id", text(t->id));
		set(row, "component", text(t->component));
		set(row, "estimated_bytes", json_integer(t->estimated));
		set(row, "observed_bytes", json_integer(t->observed));
		set(row, "estimated_blocks", t->predicted ? count(t->predicted) : json_null());
		set(row, "blocks", count(t->blocks));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *unexplained_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->unexplained_count; i++) {
		const struct match_stack *p = &m->unexplained[i];
		json_t *row = json_object();

		set(row, "stack", text(p->stack));
		set(row, "category", text(category_key(p->category)));
		set(row, "bytes", json_integer(p->bytes));
		set(row, "blocks", count(p->blocks));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *missing_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->missing_count; i++) {
		json_t *row = json_object();

		set(row, "id", text(m->missing[i].id));
		set(row, "block_bytes", json_integer(m->missing[i].size));
		set(row, "bytes", json_integer(m->missing[i].bytes));
		set(row, "blocks", count(m->missing[i].blocks));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *causes_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->cause_count; i++) {
		const struct match_cause *c = &m->causes[i];
		json_t *row = json_object();

		set(row, "key", text(c->key));
		set(row, "declared", c->declared ? text(c->declared) : json_null());
		set(row, "value", strcmp(c->value, "~") ? text(c->value) : json_null());
		set(row, "meaning", text(c->meaning));
		set(row, "gap_bytes", json_integer(c->gap));
		set(row, "off_bytes", json_integer(c->error_bytes));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *rank_json(const struct match *m)
{
	json_t *row = json_object();

	set(row, "rank", m->rank->rank == NO_RANK ? json_null() : json_integer(m->rank->rank));
	set(row, "device", json_integer(m->rank->device));
	set(row, "simulated", json_boolean(m->rank->simulated));
	set(row, "stage", json_integer(m->stage));
	set(row, "system", text(m->system->name));
	set(row, "verdict", text(m->fails ? "mismatch" : "match"));
	set(row, "estimated_bytes", json_integer(m->estimated));
	set(row, "observed_bytes", json_integer(m->observed));
	set(row, "error", json_real(m->error));
	set(row, "components", components_json(m));
	set(row, "terms", terms_json(m));
	set(row, "unexplained", unexplained_json(m));
	set(row, "missing", missing_json(m));
	set(row, "gap_bytes", json_integer(match_gap(m)));
	set(row, "causes", causes_json(m));
	if (m->what_if.asked) {
		json_t *other = json_object();

		set(other, "estimated_bytes", json_integer(m->what_if.estimated));
		set(other, "low_bytes", json_integer(m->what_if.low));
		set(other, "high_bytes", json_integer(m->what_if.high));
		set(row, "what_if", other);
	}
	return row;
}

/* Components whose estimate is off, with the ranks on which it is. */
static json_t *differing_json(const struct matches *m)
{
	json_t *list = json_array();

	for (enum category c = 0; c < CATEGORIES; c++) {
		json_t *ranks = json_array(), *row = json_object();

		for (size_t i = 0; i < m->count; i++)
			if (match_category_error(&m->list[i], c))
				json_array_append_new(ranks, json_integer(m->list[i].rank->rank));
		set(row, "component", text(category_key(c)));
		if (json_array_size(ranks))
			json_array_append(list, row);
		set(row, "ranks", ranks);
		json_decref(row);
	}
	return list;
}

static int write_part(const char *part, size_t length, void *out)
{
	buf_add(out, part, length);
	return 0;
}

void match_json(const struct matches *m, struct buf *out)
{
	json_t *root = json_object(), *ranks = json_array();

	for (size_t i = 0; i < m->count; i++)
		json_array_append_new(ranks, rank_json(&m->list[i]));
	set(root, "verdict", text(matches_fail(m) ? "mismatch" : "match"));
	set(root, "tolerance", json_real(m->tolerance));
	if (m->inference)
		inferred_json(m->inference, m->config, root);
	set(root, "ranks", ranks);
	set(root, "differing", differing_json(m));
	if (json_dump_callback(root, write_part, out, JSON_INDENT(1)) < 0)
		BUG("json");
	buf_puts(out, "\n");
	json_decref(root);
}
