#include "diagnose/weigh.h"

#include "diagnose/conditions.def"

#define MOST_OF_DEVICE 85  /* percent */
#define ENOUGH_MEASURED 18 /* first findings of a rule: all right is 19 of twenty */

/* Each row becomes two functions. */
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) \
	static int when_##id(const struct metrics *m)                              \
	{                                                                          \
		return (when) != 0;                                                \
	}                                                                          \
	static bytes weight_##id(const struct metrics *m)                          \
	{                                                                          \
		(void)m;                                                           \
		return weight;                                                     \
	}
#include "diagnose/rules.def"

const struct rule_of rules[] = {
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) \
	{ #id,                                                                     \
	  title,                                                                   \
	  message,                                                                 \
	  source,                                                                  \
	  RULE_##severity,                                                         \
	  TIER_##tier,                                                             \
	  CONFIDENCE_##confidence,                                                 \
	  when_##id,                                                               \
	  weight_##id },
#include "diagnose/rules.def"
};

/* Do the bytes of the cause cover the bytes that the request lacked, or the growth of this step
 * over those before it, which had room? */
static int is_enough(const struct metrics *m, bytes weight)
{
	return m->failed && (weight >= m->short_by || m->by_library ||
			     (m->step >= 2 && m->size_growth > 0 && weight >= m->size_growth));
}

enum severity rule_severity_of(const struct metrics *m, enum rule rule, bytes weight)
{
	switch (rules[rule].severity) {
	case RULE_OOM:
		if (m->died && weight > 0 && is_enough(m, weight))
			return SEVERITY_ERROR;
		/* Memory that grows from step to step will run out; the rest is normal for the job.
		 */
		return !m->failed && (rule == RULE_LEAK_GRAPH_RETAINED ||
				      rule == RULE_LEAK_OUTSIDE_TORCH ||
				      rule == RULE_LEAK_REF_CYCLE)
			       ? SEVERITY_WARNING
			       : SEVERITY_NOTE;
	case RULE_SLOW:
	case RULE_WARNING:
		return SEVERITY_WARNING;
	case RULE_INFO:
		break;
	}
	return SEVERITY_NOTE;
}

/* How often the rule was right when it was the first finding; NULL if it never was. */
const struct measured *rule_measured(enum rule rule)
{
	static const struct measured list[] = {
#define MEASURED(rule, right, named) [RULE_##rule] = { right, named },
#include "diagnose/confidence.def"
#undef MEASURED
		[RULES] = { 0 },
	};

	return list[rule].named ? &list[rule] : NULL;
}

/*
 * The share of right answers that is expected of a rule, by Laplace's rule of succession: 19
 * of twenty is high, twelve are medium. With few measurements, what rules.def says stands,
 * unless one of them was wrong.
 */
static enum rule_confidence measured_confidence(enum rule rule)
{
	const struct measured *n = rule_measured(rule);
	uint32_t twentieths = n ? (n->right + 1) * 20 / (n->named + 2) : 0;
	enum rule_confidence c = twentieths >= 19   ? CONFIDENCE_HIGH
				 : twentieths >= 12 ? CONFIDENCE_MEDIUM
						    : CONFIDENCE_LOW;

	if (!n ||
	    (n->named < ENOUGH_MEASURED && (n->right == n->named || rules[rule].confidence > c)))
		return rules[rule].confidence;
	return c;
}

/* The confidence of the rule; it is lower if the cause hardly covers the bytes that the request
 * lacked, or is small. */
const char *rule_confidence_of(const struct metrics *m, enum rule rule, bytes weight)
{
	static const char *const names[] = { "high", "medium", "low" };
	int c = (int)measured_confidence(rule);

	if (m->failed && rules[rule].severity == RULE_OOM &&
	    (weight < m->short_by * 2 || weight < m->allocated / 8))
		c++;
#define LESS_SURE(id, when) c += rule == RULE_##id && (when);
#include "diagnose/rules.def"
	return names[c > CONFIDENCE_LOW ? CONFIDENCE_LOW : c];
}

/* Does the job need so much of what the device has for tensors, as far as its need is known, that a
 * perfect layout leaves hardly any room? */
static int needs_most_of_the_device(const struct metrics *m)
{
	bytes room = m->device_total - m->outside;

	return room > 0 && larger_of(m->whole_need, m->peak_needed) > room / 100 * MOST_OF_DEVICE;
}

/*
 * Fragmentation that is small beside the other memory is not the cause: of a cache that is a third
 * of what PyTorch holds it is, or of sizes that vary; but a request that is out of proportion, and
 * leads to more than tensors ever had, finds no piece in any cache. In the first step, the further
 * need of the job is unknown: a larger consumer comes first then.
 */
static enum tier tier_of_pieces(const struct metrics *m, enum rule rule, bytes weight)
{
	if (m->died && rule == RULE_FRAG_EXTERNAL &&
	    (m->cached < m->reserved / 3 || needs_most_of_the_device(m) ||
	     (m->cached < m->reserved / 2 && m->cached < m->huge_sum && m->huge_blocks > 1 &&
	      when_HUGE_TENSORS(m)) ||
	     ((m->step > 1 || IS_HUGE) && m->allocated + m->requested > m->allocated_peak)))
		return TIER_LAST;
	if (!m->died || weight >= m->allocated / 5 ||
	    (weight >= m->allocated / 10 && weight >= m->requested))
		return m->died && m->step <= 1 && !m->in_setup ? TIER_PEAK : TIER_PIECES;
	return TIER_LAST;
}

/* Few tensors, or the scores of attention, explain four times as much as a rule that is not often
 * right. */
static int explains_little(const struct metrics *m, enum rule rule, bytes weight)
{
	return rules[rule].tier <= TIER_NEEDLESS && rule_measured(rule) &&
	       measured_confidence(rule) != CONFIDENCE_HIGH &&
	       ((weight < m->huge_sum / 4 && SHARE(m->huge_sum, 50) && when_HUGE_TENSORS(m)) ||
		(weight < m->attention / 4 && SHARE(m->attention, 50) && when_ATTN_QUADRATIC(m)));
}

enum tier rule_tier_of(const struct metrics *m, enum rule rule, bytes weight)
{
#define TIER_OF(id, when, tier)          \
	if (rule == RULE_##id && (when)) \
		return TIER_##tier;
#include "diagnose/rules.def"
	if (explains_little(m, rule, weight))
		return TIER_STATE;
	return rules[rule].tier == TIER_PIECES ? tier_of_pieces(m, rule, weight) : rules[rule].tier;
}
