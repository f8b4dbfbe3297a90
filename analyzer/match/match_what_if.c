#include "match/match_what_if.h"
#include "readers/native.h"
#include "readers/derive.h"

#include <stdlib.h>
#include <string.h>

static int set_pairs(struct config *c, const char *pairs, struct err *e)
{
	while (*pairs) {
		size_t length = strcspn(pairs, ","), key = strcspn(pairs, "=,");
		char *name, *value;
		int status;

		if (pairs[key] != '=' || !key)
			return err_set(e, "--what-if has \"%.*s\", expected KEY=VALUE", (int)length,
				       pairs);
		name = xasprintf("%.*s", (int)key, pairs);
		value = xasprintf("%.*s", (int)(length - key - 1), pairs + key + 1);
		status = config_set(c, name, value, "--what-if", e);
		free(name);
		free(value);
		if (status < 0)
			return -1;
		pairs += length + (pairs[length] == ',');
	}
	return config_derive(c, e);
}

/*
 * The bytes that the estimate misses may stay constant, or grow with the rest: these are the ends
 * of the range. A match without a gap leaves little between them.
 */
int match_what_if(struct match *m, const struct config *c, const char *pairs, struct err *e)
{
	const struct tolerances none = { .total = 0 };
	bytes missed = m->observed - m->estimated, scaled, kept;
	struct match other = { 0 };
	struct config changed;
	int status;

	config_init(&changed);
	config_copy(&changed, c);
	status = set_pairs(&changed, pairs, e);
	if (!status)
		status = match_make(&other, m->rank, m->system, &changed, &none, e);
	if (!status) {
		kept = bytes_add(other.estimated, missed);
		scaled = m->estimated ? (bytes)((double)other.estimated * (double)m->observed /
						(double)m->estimated)
				      : kept;
		m->what_if = (struct match_what_if){ .asked = 1,
						     .estimated = other.estimated,
						     .low = kept < scaled ? kept : scaled,
						     .high = kept < scaled ? scaled : kept };
	}
	match_release(&other);
	config_release(&changed);
	return status;
}
