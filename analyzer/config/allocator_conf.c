#include "config/allocator_conf.h"

#include <stdlib.h>
#include <string.h>

static int is_text(struct str s, const char *text)
{
	return s.length == strlen(text) && !memcmp(s.at, text, s.length);
}

int allocator_conf_next(struct str *conf, struct allocator_option *o)
{
	size_t end = 0, colon;
	int is_bracketed = 0;

	if (!conf->length)
		return 0;
	for (; end < conf->length && (conf->at[end] != ',' || is_bracketed); end++)
		is_bracketed = conf->at[end] == '[' || (is_bracketed && conf->at[end] != ']');
	for (colon = 0; colon < end && conf->at[colon] != ':'; colon++)
		;
	*o = (struct allocator_option){ .name = { conf->at, colon }, .written = { conf->at, end } };
	if (colon < end)
		o->value = (struct str){ conf->at + colon + 1, end - colon - 1 };
	end += end < conf->length;
	*conf = (struct str){ conf->at + end, conf->length - end };
	return 1;
}

int allocator_option_is(const struct allocator_option *o, const char *name, const char *value)
{
	return is_text(o->name, name) && (!value || is_text(o->value, value));
}

static int class_of(long long mib)
{
	int i = 0;

	while (i + 1 < ALLOCATOR_CLASSES && 2LL << i <= mib)
		i++;
	return i;
}

/* Reads "SIZE:DIVISIONS" or ">:DIVISIONS" (`mib` is -1 then). Returns what follows; NULL:
 * malformed.
 */
static const char *read_entry(const char *text, long long *mib, int *divisions)
{
	char *end;

	*mib = -1;
	if (*text != '>') {
		*mib = strtoll(text, &end, 10);
		if (end == text || *mib < 0)
			return NULL;
		text = end - 1;
	}
	if (text[1] != ':')
		return NULL;
	text += 2;
	*divisions = (int)strtol(text, &end, 10);
	return end == text ? NULL : end;
}

int allocator_conf_divisions(const char *text, int divisions[ALLOCATOR_CLASSES])
{
	int last = -1, value;
	long long mib;
	char *end;

	if (*text != '[') {
		value = (int)strtol(text, &end, 10);
		for (int i = 0; end != text && i < ALLOCATOR_CLASSES; i++)
			divisions[i] = value;
		return end == text ? -1 : 0;
	}
	for (text++; *text && *text != ']'; text += *text == ',') {
		text = read_entry(text, &mib, &value);
		if (!text)
			return -1;
		for (int i = last + 1; mib < 0 && i < ALLOCATOR_CLASSES; i++)
			divisions[i] = value;
		if (mib < 0)
			continue;
		for (int i = 0; last < 0 && i < class_of(mib); i++)
			divisions[i] = value;
		last = class_of(mib);
		divisions[last] = value;
	}
	return 0;
}
