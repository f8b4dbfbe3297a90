#include "diagnose/rule_table.h"

#include "util/util.h"

const struct rule_row *rule_at(size_t i)
{
	static const struct rule_row rows[] = {
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) \
	{ #id, #severity, title, #when, message, source, NULL },
#include "diagnose/rules.def"
#undef RULE
#define UNDETECTABLE(id, title, reason) { #id, "-", title, NULL, NULL, NULL, reason },
#include "diagnose/rules.def"
#undef UNDETECTABLE
	};

	return i < ARRAY_SIZE(rows) ? &rows[i] : NULL;
}
