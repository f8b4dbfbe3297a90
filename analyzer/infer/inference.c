/* What was inferred, as a list, and as a file. */
#include "infer/inference.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/json_text.h"
#include "config/native.h"

static const char *const names[] = { "exact", "likely", "guess" };

const char *confidence_name(enum confidence s)
{
	return names[s];
}

void inferred_add(struct inference *i, struct config *c, enum config_field f,
		  enum confidence confidence, const char *value, const char *evidence, ...)
{
	struct err e = { 0 };
	struct buf b = { 0 };
	char text[400];
	va_list args;

	if (config_has(c, f) && !config_is_derived(c, f))
		return;
	if (config_set(c, config_name(f), value, "inferred", &e) < 0)
		return;
	va_start(args, evidence);
	vsnprintf(text, sizeof(text), evidence, args);
	va_end(args);
	buf_puts(&b, text);
	i->list = grow(i->list, i->count, &i->room, sizeof(*i->list));
	i->list[i->count++] = (struct inferred){ f, xstrdup(value), buf_take(&b), confidence };
}

void inference_undetermined(struct inference *i, enum config_field f, const char *reason, ...)
{
	char text[400];
	va_list args;

	va_start(args, reason);
	vsnprintf(text, sizeof(text), reason, args);
	va_end(args);
	i->undetermined = grow(i->undetermined, i->undetermined_count, &i->undetermined_room,
			       sizeof(*i->undetermined));
	i->undetermined[i->undetermined_count++] = (struct undetermined){ f, xstrdup(text) };
}

struct inferred *inferred_find(const struct inference *i, enum config_field f)
{
	for (size_t k = 0; k < i->count; k++)
		if (i->list[k].field == f)
			return &i->list[k];
	return NULL;
}

void inference_release(struct inference *i)
{
	for (size_t k = 0; k < i->count; k++) {
		free(i->list[k].value);
		free(i->list[k].evidence);
	}
	for (size_t k = 0; k < i->undetermined_count; k++)
		free(i->undetermined[k].reason);
	free(i->list);
	free(i->undetermined);
	*i = (struct inference){ 0 };
}

void inference_file(const struct config *c, struct buf *out)
{
	const char *comma = "";

	buf_puts(out, "{");
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		struct buf value = { 0 };

		if (!config_has(c, (enum config_field)f) ||
		    config_is_derived(c, (enum config_field)f))
			continue;
		config_value(c, (enum config_field)f, &value);
		buf_addf(out, "%s\n  \"%s\": ", comma, config_name((enum config_field)f));
		if (strcmp(config_type((enum config_field)f), "TEXT"))
			buf_puts(out, value.text);
		else
			add_json_string(out,
					(struct str){ value.text ? value.text : "", value.length });
		buf_release(&value);
		comma = ",";
	}
	buf_puts(out, "\n}\n");
}
