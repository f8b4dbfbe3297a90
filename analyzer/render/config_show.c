#include "render/config_show.h"

#include "util/buf.h"

#include <string.h>

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
