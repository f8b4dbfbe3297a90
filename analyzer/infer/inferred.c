#include "infer/inferred.h"

#include "readers/native.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "exact", "likely", "guess" };

const char *inferred_confidence_name(enum inferred_confidence s)
{
	return names[s];
}

void inferred_add(struct inferred_config *i, struct config *c, enum config_field f,
		  enum inferred_confidence confidence, const char *value, const char *evidence, ...)
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

void inferred_undetermined(struct inferred_config *i, enum config_field f, const char *reason, ...)
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

struct inferred *inferred_find(const struct inferred_config *i, enum config_field f)
{
	for (size_t k = 0; k < i->count; k++)
		if (i->list[k].field == f)
			return &i->list[k];
	return NULL;
}

void inferred_release(struct inferred_config *i)
{
	for (size_t k = 0; k < i->count; k++) {
		free(i->list[k].value);
		free(i->list[k].evidence);
	}
	for (size_t k = 0; k < i->undetermined_count; k++)
		free(i->undetermined[k].reason);
	free(i->list);
	free(i->undetermined);
	*i = (struct inferred_config){ 0 };
}
