#include "json/config_json.h"

#include "json/json_util.h"
#include "json/json_write.h"

#include <stdlib.h>

static json_t *value_json(const struct config *c, int field)
{
	struct buf value = { 0 };
	json_t *j;

	config_value(c, field, &value);
	if (!strcmp(config_type(field), "REAL"))
		j = json_real(strtod(value.text, NULL));
	else if (!strcmp(config_type(field), "INT"))
		j = json_integer(strtoll(value.text, NULL, 10));
	else if (!strcmp(config_type(field), "BOOL"))
		j = json_boolean(!strcmp(value.text, "true"));
	else
		j = text(value.text ? value.text : "");
	buf_release(&value);
	return j;
}

void config_show_json(const struct config *c, struct buf *out)
{
	static const struct json_reals readable = { .digits = 12 };
	json_t *root = json_object(), *fields = json_array(), *notes = json_array();

	for (int f = 0; f < CONFIG_FIELDS; f++) {
		json_t *o;

		if (!config_has(c, f))
			continue;
		o = json_object();
		set(o, "key", json_string(config_name(f)));
		set(o, "value", value_json(c, f));
		set(o, "source", text(c->origin[f]));
		json_array_append_new(fields, o);
	}
	for (unsigned i = 0; i < c->note_count; i++)
		json_array_append_new(notes, text(c->notes[i]));
	set(root, "config", fields);
	set(root, "notes", notes);
	json_write(root, readable, out);
	buf_puts(out, "\n");
	json_decref(root);
}
