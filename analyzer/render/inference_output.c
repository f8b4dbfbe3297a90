#include "render/inference_output.h"

#include "render/json_util.h"

void inferred_text(const struct inference *i, struct buf *out)
{
	buf_addf(out, "%-44s %-20s %-7s  %s\n", "inferred", "value", "sure", "from");
	for (size_t k = 0; k < i->count; k++) {
		const struct inferred *v = &i->list[k];

		buf_addf(out, "%-44s %-20s %-7s  %s\n", config_name(v->field), v->value,
			 confidence_name(v->confidence), v->evidence);
	}
	for (size_t k = 0; k < i->undetermined_count; k++)
		buf_addf(out, "%-44s %-20s %-7s  %s\n", config_name(i->undetermined[k].field),
			 "cannot be told", "", i->undetermined[k].reason);
	buf_puts(out, "\n");
}

/* What the trace says by itself, or was declared. */
static json_t *given_json(const struct inference *i, const struct config *c)
{
	json_t *list = json_array();

	for (int f = 0; f < CONFIG_FIELDS; f++) {
		struct buf value = { 0 };
		json_t *row;

		if (!config_has(c, (enum config_field)f) ||
		    config_is_derived(c, (enum config_field)f) ||
		    inferred_find(i, (enum config_field)f))
			continue;
		row = json_object();
		config_value(c, (enum config_field)f, &value);
		set(row, "key", text(config_name((enum config_field)f)));
		set(row, "value", text(value.text ? value.text : ""));
		set(row, "source", text(c->origin[f]));
		json_array_append_new(list, row);
		buf_release(&value);
	}
	return list;
}

void inferred_json(const struct inference *i, const struct config *c, json_t *root)
{
	json_t *list = json_array(), *open = json_array();

	for (size_t k = 0; k < i->count; k++) {
		json_t *row = json_object();

		set(row, "key", text(config_name(i->list[k].field)));
		set(row, "value", text(i->list[k].value));
		set(row, "confidence", text(confidence_name(i->list[k].confidence)));
		set(row, "evidence", text(i->list[k].evidence));
		json_array_append_new(list, row);
	}
	for (size_t k = 0; k < i->undetermined_count; k++) {
		json_t *row = json_object();

		set(row, "key", text(config_name(i->undetermined[k].field)));
		set(row, "reason", text(i->undetermined[k].reason));
		json_array_append_new(open, row);
	}
	set(root, "inferred", list);
	set(root, "not_told", open);
	set(root, "given", given_json(i, c));
}
