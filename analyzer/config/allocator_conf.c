#include "config/allocator_conf.h"

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
