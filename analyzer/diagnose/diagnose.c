#include "diagnose/diagnose.h"

#include "diagnose/diagnose_ranks.h"
#include "diagnose/message.h"
#include "report/report.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

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

#define NO_NUMBER SAVING_UNKNOWN
/* The meaning of the bytes of a remedy. If nothing failed, the trace has the whole need. */
#define AT_LEAST(n) bound_if(m->failed, n, SAVING_AT_LEAST)
#define AT_LEAST_IF(is, n) bound_if(m->failed && (is), n, SAVING_AT_LEAST)
#define AT_FAILURE(n) bound_if(m->failed, n, SAVING_AT_FAILURE)
#define BY_WHOLE_STEPS(n) m->whole_measured ? UNLESS_GROWN(n) : AT_FAILURE(n)
#define UNLESS_GROWN(n) (is_growth(m, n) ? beyond_steps(m, n) : about(n))
#define SO_FAR(n)                    \
	is_growth(m, n)              \
		? beyond_steps(m, n) \
		: AT_LEAST_IF(m->loss_is_own || m->moment_need < m->whole_pass / 10 * 8, n)
#define BY_WHOLE_STEPS_SO_FAR(n) m->whole_measured ? SO_FAR(n) : AT_FAILURE(n)
#define BEYOND_STEPS(n) beyond_steps(m, n)
#define ENOUGH_MEASURED 18 /* first findings of a rule: all right is 19 of twenty */
#define MAX_RESULTS 3      /* of one call of the model: logits, a loss, features */

struct saved {
	bytes n;
	enum saving_bound bound;
};

static struct saved bound_if(int is_bound, bytes n, enum saving_bound bound)
{
	return (struct saved){ n, is_bound ? bound : SAVING_ABOUT };
}

static struct saved as_it_is(struct saved s)
{
	return s;
}

static struct saved about(bytes n)
{
	return (struct saved){ n, SAVING_ABOUT };
}

/* Had the steps before the one that failed less than half of the bytes? They do not tell then how
 * much more of them it would have needed. */
static int is_growth(const struct metrics *m, bytes n)
{
	return m->failed && m->whole_measured && m->size_growth > n / 2;
}

/* Memory beside the steps, `n`, makes the peak higher than theirs, and may still grow. */
static struct saved beyond_steps(const struct metrics *m, bytes n)
{
	if (!m->failed || m->step < 2 || !m->size_growth)
		return bound_if(m->failed, n, SAVING_AT_FAILURE);
	return (struct saved){ smaller_of(n, m->size_growth), SAVING_AT_LEAST };
}

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
#undef RULE

enum rule {
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) RULE_##id,
#include "diagnose/rules.def"
#undef RULE
	RULES
};

static const struct {
	const char *id, *title, *message, *source;
	enum rule_severity severity;
	enum tier tier;
	enum rule_confidence confidence;
	int (*when)(const struct metrics *m);
	bytes (*weight)(const struct metrics *m);
} rules[] = {
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
#undef RULE
};

/* The remedies of a rule, in order. */
static void add_remedy(struct finding *f, const struct metrics *m, const char *action,
		       struct saved saving)
{
	struct buf text = { 0 };

	diagnose_fill(&text, action, m, NULL);
	f->remedies = grow(f->remedies, f->remedy_count, &f->remedy_room, sizeof(*f->remedies));
	f->remedies[f->remedy_count++] = (struct remedy){
		.action = buf_take(&text),
		.saving = saving.n > 0 ? saving.n : SAVING_UNKNOWN,
		.bound = saving.n > 0 ? saving.bound : SAVING_ABOUT,
	};
}

#define NAMED_1(rule, line) remedy_##rule##_##line
#define NAMED(rule, line) NAMED_1(rule, line)
#define REMEDY(rule, when, action, saving)                                             \
	static void NAMED(rule, __LINE__)(struct finding * f, const struct metrics *m) \
	{                                                                              \
		if (when)                                                              \
			add_remedy(f, m, action,                                       \
				   _Generic((saving), struct saved                     \
					    : as_it_is, default                        \
					    : about)(saving));                         \
	}
#include "diagnose/rules.def"
#undef REMEDY

static const struct {
	enum rule rule;
	void (*add)(struct finding *f, const struct metrics *m);
} remedies[] = {
#define REMEDY(rule, when, action, saving) { RULE_##rule, NAMED(rule, __LINE__) },
#include "diagnose/rules.def"
#undef REMEDY
};

/* Do the bytes of the cause cover the bytes that the request lacked, or the growth of this step
 * over those before it, which had room? */
static int is_enough(const struct metrics *m, bytes weight)
{
	return m->failed && (weight >= m->short_by || m->by_library ||
			     (m->step >= 2 && m->size_growth > 0 && weight >= m->size_growth));
}

static enum severity severity_of(const struct metrics *m, enum rule rule, bytes weight)
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
static const struct measured *measured_of(enum rule rule)
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
	const struct measured *n = measured_of(rule);
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
static const char *confidence_of(const struct metrics *m, enum rule rule, bytes weight)
{
	static const char *const names[] = { "high", "medium", "low" };
	int c = (int)measured_confidence(rule);

	if (m->failed && rules[rule].severity == RULE_OOM &&
	    (weight < m->short_by * 2 || weight < m->allocated / 8))
		c++;
	/* The copies may have another purpose than a checkpoint. */
	if (rule == RULE_CKPT_SAVE_SPIKE && m->saving < m->copies)
		c++;
	/* A job that adds up losses looks the same until its first backward pass. */
	if (rule == RULE_INFERENCE_GRAPH && !m->graphs_dropped)
		c++;
	/* A second training loop looks the same until its first backward pass; so does the start of
	 * a pass that keeps no graph. */
	if ((rule == RULE_EVAL_GRAPH_KEPT && (!m->run_evaluates || FEW_BLOCKS)) ||
	    (rule == RULE_EVAL_BATCH_LARGE && !m->run_evaluates))
		c++;
	/* A graph keeps as many of one layer as of another, and none has most of them. Layers of
	 * one line make several blocks in a call, of which each may be seen. */
	if (rule == RULE_EVAL_ACCUMULATION &&
	    (m->run_repeat_stacks > MAX_RESULTS || !ONE_PLACE || !m->steps ||
	     (m->run_calls && m->run_calls < m->run_repeats / 2)))
		c++;
	/* The later call may be the reference, and hold but a layer's blocks. Two towers that are
	 * both trained look the same until their first backward pass. */
	if (rule == RULE_REFERENCE_GRAPH &&
	    (!m->again_kept || (!m->gradients && !m->optimizer_states)))
		c++;
	/* One earlier step and this one: each step may replace what the one before has left. */
	if (rule == RULE_EARLIER_STEP_KEPT && m->left_steps < 3)
		c++;
	/* What earlier steps have left may be a history, of which each step adds some. */
	if (rule == RULE_GRADIENT_COPIES && SHARE(m->left, 5))
		c++;
	/* Later steps take from what earlier ones left: a queue that is filled faster, perhaps. */
	if (rule == RULE_LEAK_GRAPH_RETAINED && m->leak_consumed >= m->leak_steps)
		c++;
	/* No optimizer has shown yet: the backward passes may be derivatives within one loss. */
	if (rule == RULE_LEAK_GRAPH_RETAINED && !IN(OPTIMIZER))
		c += m->leak_autograd > m->leak_bytes / 2 || m->leak_steps < 4;
	if ((rule == RULE_LOSSES_SUMMED && EVALUATES) ||
	    (rule == RULE_GRADS_HELD_IN_FORWARD && !IN(OPTIMIZER)))
		c++;
	/* A line that is trained with retain_graph=True looks the same. */
	if (rule == RULE_CALL_UNUSED && m->never_used > m->again_unused)
		c++;
	/* Only the backward pass shows whether it needs both calls. */
	if (rule == RULE_EARLIER_CALL)
		c = CONFIDENCE_LOW;
	return names[c > CONFIDENCE_LOW ? CONFIDENCE_LOW : c];
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
	    (m->cached < m->reserved / 3 ||
	     (m->cached < m->reserved / 2 && m->cached < m->huge_sum && m->huge_blocks > 1 &&
	      when_HUGE_TENSORS(m)) ||
	     ((m->step > 1 || IS_HUGE) && m->allocated + m->requested > m->allocated_peak)))
		return TIER_LAST;
	if (!m->died || weight >= m->allocated / 5 ||
	    (weight >= m->allocated / 10 && weight >= m->requested))
		return m->died && m->step <= 1 && !m->in_setup ? TIER_PEAK : TIER_PIECES;
	return TIER_LAST;
}

static enum tier tier_of(const struct metrics *m, enum rule rule, bytes weight)
{
	/* Without a proof of inference, other explanations of the peak come first. */
	if (rule == RULE_INFERENCE_GRAPH && !m->inference)
		return m->predicts ? TIER_PEAK : CALLS_KEEP_GRAPHS ? TIER_STATE : TIER_DEFAULT;
	/* A second training loop looks the same until its first backward pass. */
	if (rule == RULE_EVAL_GRAPH_KEPT && !m->run_evaluates)
		return ONE_TENSOR ? TIER_DEFAULT : TIER_PEAK;
	/* What one unit of FSDP gathered is in that cache. */
	if (rule == RULE_NCCL_STARVED_BY_CACHE && when_FSDP_WRAP_COARSE(m))
		return TIER_STATE;
	/* Trainer concatenates the results of an evaluation, which are in no loop of the job. */
	if (rule == RULE_GROWING_TENSOR && IN(TRAINER) && m->run_evaluates &&
	    when_EVAL_ACCUMULATION(m))
		return TIER_NEEDLESS;
	/* What training has needlessly, evaluation lacks. */
	if (rule == RULE_EVAL_BATCH_LARGE && (m->step < 2 || when_SECOND_MODEL(m)))
		return TIER_PEAK;
	/* Derivatives within one loss look like steps until an optimizer shows. */
	if (WITHIN_ONE_LOSS &&
	    ((rule == RULE_EARLIER_STEP_KEPT && KEEPS_IN_BACKWARD) ||
	     (rule == RULE_LEAK_GRAPH_RETAINED && m->leak_autograd > m->leak_bytes / 4)))
		return TIER_STATE;
	/* Each step may leave what its variables refer to until the next one has made its own. */
	if (rule == RULE_EARLIER_STEP_KEPT && m->left_steps < 2 && when_HUGE_TENSORS(m) &&
	    (m->huge_sum >= m->left || (m->size_growth > 0 && m->huge_sum >= m->size_growth)))
		return TIER_DEFAULT;
	/* One tensor, and all that follows from it has twice its size: a type, and no large result.
	 */
	if (rule == RULE_ACT_UPCAST && m->doubled_once)
		return TIER_NEEDLESS;
	/* No optimizer has shown: these may be micro-batches of the first step. */
	if (rule == RULE_GRADS_HELD_IN_FORWARD && !IN(OPTIMIZER))
		return TIER_STATE;
	/* What each step leaves are models with their gradients and states. */
	if (rule == RULE_SECOND_MODEL && REPLICAS)
		return TIER_WRONG;
	if ((rule == RULE_LEAK_GRAPH_RETAINED || rule == RULE_GRADIENTS_KEPT) &&
	    (REPLICAS || (m->remade && when_SECOND_MODEL(m))) &&
	    m->leak_bytes <= 5 * m->param_copies)
		return TIER_NEEDLESS;
	/* Logits of two calls: the earlier call explains them. */
	if (rule == RULE_LOGITS_SPIKE && TWO_CALLS)
		return TIER_DEFAULT;
	/* Before the first step, a name that speaks of evaluation may be right. */
	if (rule == RULE_LOSSES_SUMMED && EVALUATES)
		return TIER_PEAK;
	/* Few tensors explain four times as much as a rule that is not often right. */
	if (rules[rule].tier <= TIER_NEEDLESS && weight < m->huge_sum / 4 &&
	    SHARE(m->huge_sum, 50) && when_HUGE_TENSORS(m) && measured_of(rule) &&
	    measured_confidence(rule) != CONFIDENCE_HIGH)
		return TIER_STATE;
	return rules[rule].tier == TIER_PIECES ? tier_of_pieces(m, rule, weight) : rules[rule].tier;
}

/* The stack that allocated the blocks that the rule is about; NULL if there is none. */
static const char *label_of(const struct rank *r, enum rule rule)
{
	switch (rule) {
#define PLACE(rule, label) \
	case RULE_##rule:  \
		return r->label;
#include "diagnose/rules.def"
#undef PLACE
	default:
		return NULL;
	}
}

static void add_finding(struct diagnosis *d, const struct rank *r, size_t rank, enum rule rule)
{
	const struct metrics *m = r->metrics;
	bytes weight = rules[rule].weight(m);
	const char *label = label_of(r, rule), *unfailed = m->failed ? NULL : rule_unfailed(rule);
	struct buf text = { 0 };
	struct finding f = {
		.rule = rules[rule].id,
		.title = rules[rule].title,
		.source = rules[rule].source,
		.rank = rank,
		.severity = severity_of(m, rule, weight),
		.confidence = confidence_of(m, rule, weight),
		.measured = measured_of(rule),
		.is_informational = rules[rule].severity == RULE_INFO,
		.weight = weight,
		.tier = (int)tier_of(m, rule, weight),
		.order = (int)rule,
	};

	diagnose_fill(&text, unfailed ? unfailed : rules[rule].message, m, &f);
	f.message = buf_take(&text);
	if (label)
		f.stack = xstrdup(label);
	for (size_t i = 0; i < ARRAY_SIZE(remedies); i++)
		if (remedies[i].rule == rule)
			remedies[i].add(&f, m);
	d->findings = grow(d->findings, d->count, &d->room, sizeof(*d->findings));
	d->findings[d->count++] = f;
}

static int by_importance(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->rank != y->rank)
		return ORDER(x->rank, y->rank);
	if (x->severity != y->severity)
		return ORDER(x->severity, y->severity);
	if (x->tier != y->tier)
		return ORDER(x->tier, y->tier);
	if (x->weight != y->weight)
		return ORDER(y->weight, x->weight);
	return x->order < y->order ? -1 : x->order > y->order;
}

/* The first error is the cause; the other errors become notes. Without a failure, the first warning
 * is the cause. */
static void choose_causes(struct diagnosis *d)
{
	for (size_t i = 0; i < d->count; i++) {
		struct finding *f = &d->findings[i];
		int is_first = !i || d->findings[i - 1].rank != f->rank;

		f->is_cause = is_first && f->severity != SEVERITY_NOTE;
		if (!is_first && f->severity == SEVERITY_ERROR)
			f->severity = SEVERITY_NOTE;
	}
}

static void rule_out(struct diagnosis *d, const struct metrics *m)
{
#define RULED_OUT(when, message)                                                          \
	if (when) {                                                                       \
		struct buf text = { 0 };                                                  \
                                                                                          \
		diagnose_fill(&text, message, m, NULL);                                   \
		d->ruled_out = grow(d->ruled_out, d->ruled_out_count, &d->ruled_out_room, \
				    sizeof(*d->ruled_out));                               \
		d->ruled_out[d->ruled_out_count++] = buf_take(&text);                     \
	}
#include "diagnose/rules.def"
#undef RULED_OUT
}

/* Moves the findings of the rank that is shown in detail to the front. */
static void bring_first(struct diagnosis *d, size_t shown)
{
	struct finding *sorted = xcalloc(d->count, sizeof(*sorted));
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < d->count; i++)
			if ((d->findings[i].rank == shown) == !pass)
				sorted[n++] = d->findings[i];
	free(d->findings);
	d->findings = sorted;
	d->room = d->count;
}

void diagnose(struct diagnosis *d, const struct report *r)
{
	const struct rank *worst = report_worst(r);
	size_t shown = worst ? (size_t)(worst - r->ranks) : 0;

	*d = (struct diagnosis){ 0 };
	diagnose_ranks(r);
	for (size_t i = 0; i < r->count; i++) {
		const struct metrics *m = r->ranks[i].metrics;

		for (enum rule k = 0; m && k < RULES; k++)
			if (rules[k].when(m))
				add_finding(d, &r->ranks[i], i, k);
	}
	if (!d->count)
		return;
	qsort(d->findings, d->count, sizeof(*d->findings), by_importance);
	choose_causes(d);
	bring_first(d, shown);
	if (r->ranks[shown].metrics)
		rule_out(d, r->ranks[shown].metrics);
}

void diagnosis_release(struct diagnosis *d)
{
	for (size_t i = 0; i < d->count; i++) {
		free(d->findings[i].message);
		free(d->findings[i].stack);
		free(d->findings[i].evidence);
		for (size_t k = 0; k < d->findings[i].remedy_count; k++)
			free(d->findings[i].remedies[k].action);
		free(d->findings[i].remedies);
	}
	for (size_t i = 0; i < d->ruled_out_count; i++)
		free(d->ruled_out[i]);
	free(d->findings);
	free(d->ruled_out);
	*d = (struct diagnosis){ 0 };
}

const struct finding *diagnosis_cause(const struct diagnosis *d, size_t rank)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->findings[i].rank == rank && d->findings[i].is_cause)
			return &d->findings[i];
	return NULL;
}
