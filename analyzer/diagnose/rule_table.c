#include "diagnose/rule_table.h"

#include "util/util.h"

#include <string.h>

const struct rule_row *rule_at(size_t i)
{
	static const struct rule_row rows[] = {
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) \
	{ #id, #severity, title, #when, message, source, NULL },
#include "diagnose/rules.def"
#define UNDETECTABLE(id, title, reason) { #id, "-", title, NULL, NULL, NULL, reason },
#include "diagnose/rules.def"
	};

	return i < ARRAY_SIZE(rows) ? &rows[i] : NULL;
}

const char *rule_unfailed(size_t i)
{
	static const struct {
		const char *id, *message;
	} messages[] = {
#define UNFAILED(rule, message) { #rule, message },
#include "diagnose/rules.def"
	};
	const struct rule_row *row = rule_at(i);

	for (size_t k = 0; row && k < ARRAY_SIZE(messages); k++)
		if (!strcmp(messages[k].id, row->id))
			return messages[k].message;
	return NULL;
}
