/* The rules of rules.def over the metrics of a rank, and how a rule stands beside others: the
 * severity and the tier of its finding, by which the cause is chosen, and its confidence. */
#ifndef MEMTRACE_WEIGH_H
#define MEMTRACE_WEIGH_H

#include "diagnose/diagnose.h"
#include "metrics/metrics.h"

enum rule_severity { RULE_OOM, RULE_SLOW, RULE_WARNING, RULE_INFO };
enum tier {
	TIER_WRONG,
	TIER_NEEDLESS,
	TIER_PIECES,
	TIER_PEAK,
	TIER_STATE,
	TIER_DEFAULT,
	TIER_LAST
};
enum rule_confidence { CONFIDENCE_HIGH, CONFIDENCE_MEDIUM, CONFIDENCE_LOW };

enum rule {
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) RULE_##id,
#include "diagnose/rules.def"
	RULES
};

/* A row of rules.def, whose condition and bytes are functions of the metrics. */
struct rule_of {
	const char *id, *title, *message, *source;
	enum rule_severity severity;
	enum tier tier;
	enum rule_confidence confidence;
	int (*when)(const struct metrics *m);
	bytes (*weight)(const struct metrics *m);
};
extern const struct rule_of rules[]; /* by enum rule */

/* `weight`: the bytes of the rule. */
enum severity rule_severity_of(const struct metrics *m, enum rule rule, bytes weight);
enum tier rule_tier_of(const struct metrics *m, enum rule rule, bytes weight);
/* Lower than that of the rule if the cause hardly covers the bytes that the request lacked, or is
 * small. */
const char *rule_confidence_of(const struct metrics *m, enum rule rule, bytes weight);
/* How often the rule was right when it was the first finding; NULL if it never was. */
const struct measured *rule_measured(enum rule rule);

#endif
