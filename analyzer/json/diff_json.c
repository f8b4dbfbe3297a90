#include "json/diff_json.h"
#include "json/json_util.h"

struct diff_result {
	const struct diff *diff;
	int has_limit, is_over;
};

static json_t *item_json(const struct diff_item *x)
{
	json_t *j = json_object();

	if (x->kind == DIFF_CONFIG) {
#define CONFIG_ITEM PUT_MEMBER
#include "diff/members.def"
	} else {
#define ITEM PUT_MEMBER
#include "diff/members.def"
	}
	return j;
}

static json_t *failed_json(const struct oom *x)
{
	json_t *j = json_object();

#define FAILED PUT_MEMBER
#include "diff/members.def"
	return j;
}

static json_t *out_of_memory_json(const struct rank *x)
{
	return diff_has_failed(x) ? failed_json(rank_oom(x)) : json_null();
}

static json_t *compared_json(const struct rank *x)
{
	json_t *j = json_object();

#define COMPARED PUT_MEMBER
#include "diff/members.def"
	return j;
}

static json_t *side_json(const struct diff_side *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->count; i++)
		json_array_append_new(list, compared_json(s->ranks[i]));
	return list;
}

static json_t *a_json(const struct diff_result *x)
{
	return side_json(&x->diff->side[SIDE_A]);
}

static json_t *b_json(const struct diff_result *x)
{
	return side_json(&x->diff->side[SIDE_B]);
}

static json_t *items_json(const struct diff_result *x)
{
	json_t *list = json_array();

	for (size_t i = 0; i < x->diff->count; i++)
		json_array_append_new(list, item_json(&x->diff->items[i]));
	return list;
}

static json_t *over_json(const struct diff_result *x)
{
	return x->has_limit ? json_boolean(x->is_over) : json_null();
}

static json_t *result_json(const struct diff_result *x)
{
	json_t *j = json_object();

#define DIFF PUT_MEMBER
#include "diff/members.def"
	return j;
}

void diff_json(const struct diff *c, int has_limit, int is_over, struct buf *out)
{
	json_t *root = result_json(&(struct diff_result){ c, has_limit, is_over });

	if (json_dump_callback(root, add_json_part, out, JSON_INDENT(1)) < 0)
		BUG("json");
	buf_puts(out, "\n");
	json_decref(root);
}
