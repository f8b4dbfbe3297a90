#include "json/match_json.h"

#include "json/inferred_json.h"
#include "json/json_util.h"

static json_t *component_json(const struct match_component *x)
{
	json_t *j = json_object();

#define COMPONENT PUT_MEMBER
#include "match/members.def"
	return j;
}

static json_t *components_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->component_count; i++)
		json_array_append_new(list, component_json(&m->components[i]));
	return list;
}

static json_t *term_json(const struct match_term *x)
{
	json_t *j = json_object();

#define TERM PUT_MEMBER
#include "match/members.def"
	return j;
}

static json_t *terms_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->term_count; i++)
		json_array_append_new(list, term_json(&m->terms[i]));
	return list;
}

static json_t *unexplained_stack_json(const struct match_stack *x)
{
	json_t *j = json_object();

#define UNEXPLAINED PUT_MEMBER
#include "match/members.def"
	return j;
}

static json_t *unexplained_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->unexplained_count; i++)
		json_array_append_new(list, unexplained_stack_json(&m->unexplained[i]));
	return list;
}

static json_t *missing_blocks_json(const struct match_missing *x)
{
	json_t *j = json_object();

#define MISSING PUT_MEMBER
#include "match/members.def"
	return j;
}

static json_t *missing_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->missing_count; i++)
		json_array_append_new(list, missing_blocks_json(&m->missing[i]));
	return list;
}

static json_t *cause_json(const struct match_cause *x)
{
	json_t *j = json_object();

#define CAUSE PUT_MEMBER
#include "match/members.def"
	return j;
}

static json_t *causes_json(const struct match *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->cause_count; i++)
		json_array_append_new(list, cause_json(&m->causes[i]));
	return list;
}

static json_t *what_if_json(const struct match_what_if *x)
{
	json_t *j = json_object();

#define WHAT_IF PUT_MEMBER
#include "match/members.def"
	return j;
}

static json_t *match_rank_json(const struct match *x)
{
	json_t *j = json_object();

#define MATCH PUT_MEMBER
#include "match/members.def"
	if (x->what_if.asked)
		set(j, "what_if", what_if_json(&x->what_if));
	return j;
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

void match_json(const struct matches *m, struct buf *out)
{
	json_t *root = json_object(), *ranks = json_array();

	for (size_t i = 0; i < m->count; i++)
		json_array_append_new(ranks, match_rank_json(&m->list[i]));
	set(root, "verdict", text(matches_fail(m) ? "mismatch" : "match"));
	set(root, "tolerance", json_real(m->tolerance));
	if (m->inferred)
		inferred_json(m->inferred, m->config, root);
	set(root, "ranks", ranks);
	set(root, "differing", differing_json(m));
	if (json_dump_callback(root, add_json_part, out, JSON_INDENT(1)) < 0)
		BUG("json");
	buf_puts(out, "\n");
	json_decref(root);
}
