#include "render/inferred_text.h"

void inferred_text(const struct inferred_config *i, struct buf *out)
{
	buf_addf(out, "%-44s %-20s %-7s  %s\n", "inferred", "value", "conf.", "evidence");
	for (size_t k = 0; k < i->count; k++) {
		const struct inferred *v = &i->list[k];

		buf_addf(out, "%-44s %-20s %-7s  %s\n", config_name(v->field), v->value,
			 inferred_confidence_name(v->confidence), v->evidence);
	}
	for (size_t k = 0; k < i->undetermined_count; k++)
		buf_addf(out, "%-44s %-20s %-7s  %s\n", config_name(i->undetermined[k].field),
			 "undetermined", "", i->undetermined[k].reason);
	buf_puts(out, "\n");
}
