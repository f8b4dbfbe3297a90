#include "render/inferred.h"

#include "render/json_parts.h"

void inferred_text(const struct inference *i, struct buf *out)
{
	buf_addf(out, "%-44s %-20s %-7s  %s\n", "inferred", "value", "sure", "from");
	for (size_t k = 0; k < i->count; k++) {
		const struct inferred *v = &i->list[k];

		buf_addf(out, "%-44s %-20s %-7s  %s\n", config_name(v->field), v->value,
			 sureness_name(v->sure), v->evidence);
	}
	for (size_t k = 0; k < i->untold_count; k++)
		buf_addf(out, "%-44s %-20s %-7s  %s\n", config_name(i->untold[k].field),
			 "cannot be told", "", i->untold[k].reason);
	buf_puts(out, "\n");
}

void inferred_json(const struct inference *i, json_t *root)
{
	json_t *list = json_array(), *open = json_array();

	for (size_t k = 0; k < i->count; k++) {
		json_t *row = json_object();

		set(row, "key", text(config_name(i->list[k].field)));
		set(row, "value", text(i->list[k].value));
		set(row, "confidence", text(sureness_name(i->list[k].sure)));
		set(row, "evidence", text(i->list[k].evidence));
		json_array_append_new(list, row);
	}
	for (size_t k = 0; k < i->untold_count; k++) {
		json_t *row = json_object();

		set(row, "key", text(config_name(i->untold[k].field)));
		set(row, "reason", text(i->untold[k].reason));
		json_array_append_new(open, row);
	}
	set(root, "inferred", list);
	set(root, "not_told", open);
}
