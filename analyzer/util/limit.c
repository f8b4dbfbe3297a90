#include "util/limit.h"

#include "util/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int limit_parse(struct limit *l, const char *name, const char *text, struct err *e)
{
	struct err why = { 0 };
	char *end;

	*l = (struct limit){ .is_given = text != NULL };
	if (!text)
		return 0;
	if (!strchr(text, '%')) {
		if (size_parse(text, &l->bytes, &why) < 0)
			return err_set(e, "--%s: %s", name, why.text);
		return 0;
	}
	l->is_percent = 1;
	l->percent = strtod(text, &end);
	if (end == text || strcmp(end, "%") || !isfinite(l->percent) || l->percent < 0 ||
	    l->percent > 1e6)
		return err_set(e, "--%s: \"%s\" is no percentage from 0%% to 1000000%%", name,
			       text);
	return 0;
}

bytes limit_of(const struct limit *l, bytes whole)
{
	return l->is_percent ? (bytes)((double)whole * l->percent / 100) : l->bytes;
}
