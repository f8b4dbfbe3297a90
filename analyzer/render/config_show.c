/* The configuration as it was read: every value with where it is from. */
#include "render/config_show.h"

#include <string.h>

#include "util/buf.h"
#include "util/json_text.h"

void config_show(const struct config *c, struct buf *out)
{
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		struct buf value = { 0 };

		if (!config_has(c, f))
			continue;
		config_value(c, f, &value);
		buf_addf(out, "%-44s ", config_name(f));
		buf_add_clean(out, (struct str){ value.text ? value.text : "", value.length });
		for (size_t i = value.length; i < 20; i++)
			buf_add(out, " ", 1);
		buf_puts(out, "  ");
		buf_add_clean(out, (struct str){ c->origin[f], strlen(c->origin[f]) });
		buf_add(out, "\n", 1);
		buf_release(&value);
	}
	for (unsigned i = 0; i < c->note_count; i++) {
		buf_puts(out, "note: ");
		buf_add_clean(out, (struct str){ c->notes[i], strlen(c->notes[i]) });
		buf_puts(out, "\n");
	}
}

static void add_text(struct buf *out, const char *key, const char *text)
{
	buf_addf(out, "\"%s\":", key);
	add_json_string(out, (struct str){ text, strlen(text) });
}

void config_show_json(const struct config *c, struct buf *out)
{
	const char *comma = "";

	buf_puts(out, "{\"config\":[");
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		struct buf value = { 0 };

		if (!config_has(c, f))
			continue;
		config_value(c, f, &value);
		buf_addf(out, "%s{\"key\":\"%s\",", comma, config_name(f));
		if (strcmp(config_type(f), "TEXT"))
			buf_addf(out, "\"value\":%s", value.text);
		else
			add_text(out, "value", value.text ? value.text : "");
		buf_puts(out, ",");
		add_text(out, "source", c->origin[f]);
		buf_puts(out, "}");
		buf_release(&value);
		comma = ",";
	}
	buf_puts(out, "],\"notes\":[");
	for (unsigned i = 0; i < c->note_count; i++) {
		buf_puts(out, i ? "," : "");
		add_json_string(out, (struct str){ c->notes[i], strlen(c->notes[i]) });
	}
	buf_puts(out, "]}\n");
}
