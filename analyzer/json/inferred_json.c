#include "json/inferred_json.h"

#include "json/json_util.h"

#include <stdlib.h>
#include <string.h>

/* Values that the trace has, or that were declared. */
static json_t *given_json(const struct inferred_config *i, const struct config *c)
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

void inferred_json(const struct inferred_config *i, const struct config *c, json_t *root)
{
	json_t *list = json_array(), *open = json_array();

	for (size_t k = 0; k < i->count; k++) {
		json_t *row = json_object();

		set(row, "key", text(config_name(i->list[k].field)));
		set(row, "value", text(i->list[k].value));
		set(row, "confidence", text(inferred_confidence_name(i->list[k].confidence)));
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

/* Numbers and truth values are JSON as config_value() writes them. */
static json_t *value_json(const struct config *c, enum config_field f)
{
	struct buf value = { 0 };
	json_t *j;

	config_value(c, f, &value);
	if (!strcmp(config_type(f), "TEXT"))
		j = text(value.text ? value.text : "");
	else
		j = json_loadb(value.text, value.length, JSON_DECODE_ANY, NULL);
	buf_release(&value);
	return j;
}

void inferred_file(const struct config *c, struct buf *out)
{
	json_t *root = json_object();
	char *written;

	for (enum config_field f = 0; f < CONFIG_FIELDS; f++)
		if (config_has(c, f) && !config_is_derived(c, f))
			set(root, config_name(f), value_json(c, f));
	written = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	if (!written)
		BUG("json");
	buf_addf(out, "%s\n", written);
	free(written);
	json_decref(root);
}
