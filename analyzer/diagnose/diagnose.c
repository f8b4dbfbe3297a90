#include "diagnose/diagnose.h"

#include "diagnose/conditions.def"
#include "diagnose/diagnose_ranks.h"
#include "diagnose/message.h"
#include "diagnose/weigh.h"
#include "report/report.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define NO_NUMBER SAVING_UNKNOWN
/* The meaning of the bytes of a remedy. If nothing failed, the trace has the whole need. */
#define AT_LEAST(n) AT_LEAST_IF(1, n)
#define AT_LEAST_IF(is, n) NO_LESS_IF(m->failed && (is), n)
#define AT_FAILURE(n) bound_if(m->failed, n, SAVING_AT_FAILURE)
/* `in_whole`: what the same remedy takes from a run that did not fail. */
#define OF_WHOLE(n, in_whole) bound_if(m->failed, m->failed ? (n) : (in_whole), SAVING_AT_FAILURE)
/* Of a whole run too: the remedy takes more than its number counts. */
#define NO_LESS(n) NO_LESS_IF(1, n)
#define NO_LESS_IF(is, n) bound_if(is, n, SAVING_AT_LEAST)
#define BY_WHOLE_STEPS(n) m->whole_measured ? UNLESS_GROWN(n) : AT_FAILURE(n)
#define UNLESS_GROWN(n) (is_growth(m, n) ? beyond_steps(m, n) : about(n))
#define SO_FAR(n)                    \
	is_growth(m, n)              \
		? beyond_steps(m, n) \
		: AT_LEAST_IF(m->loss_is_own || m->moment_need < m->whole_pass / 10 * 8, n)
#define BY_WHOLE_STEPS_SO_FAR(n) m->whole_measured ? SO_FAR(n) : in_unfinished(m, TRAINED, n)
#define BEYOND_STEPS(n) beyond_steps(m, n)

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

/* What a forward pass has of it by now, whose rest makes more. If it is much beside the gradients
 * and the optimizer's temporaries, the passes are what a step needs most for, with half of it too.
 */
static struct saved in_unfinished(const struct metrics *m, bytes trained, bytes n)
{
	int grows = m->whole_is_least && m->in_forward && n >= 2 * trained;

	return bound_if(m->failed, n, grows ? SAVING_AT_LEAST : SAVING_AT_FAILURE);
}

/* Memory beside the steps, `n`, makes the peak higher than theirs, and may still grow. */
static struct saved beyond_steps(const struct metrics *m, bytes n)
{
	if (!m->failed || m->step < 2 || !m->size_growth)
		return bound_if(m->failed, n, SAVING_AT_FAILURE);
	return (struct saved){ smaller_of(n, m->size_growth), SAVING_AT_LEAST };
}

/*
 * The saving of a remedy. Where the whole job was measured, on a larger device, it is what the
 * remedy takes from that need; but the blocks that it removes may be of the failure alone, or not
 * be found at that peak.
 */
static struct saved by_whole(struct saved failed, struct saved whole)
{
	if (whole.n > 0 && whole.n >= failed.n / 2)
		return whole;
	return failed.n > 0 ? (struct saved){ failed.n, SAVING_AT_FAILURE } : failed;
}

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
#define SAVING_OF(rule, line) NAMED_1(rule##_saving, line)
#define REMEDY(rule, when, action, saving)                                                   \
	static struct saved SAVING_OF(rule, __LINE__)(const struct metrics *m)               \
	{                                                                                    \
		(void)m;                                                                     \
		return _Generic((saving), struct saved : as_it_is, default : about)(saving); \
	}                                                                                    \
	static void NAMED(rule, __LINE__)(struct finding * f, const struct metrics *m,       \
					  const struct metrics *whole)                       \
	{                                                                                    \
		if (when)                                                                    \
			add_remedy(f, m, action,                                             \
				   whole ? by_whole(SAVING_OF(rule, __LINE__)(m),            \
						    SAVING_OF(rule, __LINE__)(whole))        \
					 : SAVING_OF(rule, __LINE__)(m));                    \
	}
#include "diagnose/rules.def"

static const struct {
	enum rule rule;
	void (*add)(struct finding *f, const struct metrics *m, const struct metrics *whole);
} remedies[] = {
#define REMEDY(rule, when, action, saving) { RULE_##rule, NAMED(rule, __LINE__) },
#include "diagnose/rules.def"
};

/* The stack that allocated the blocks that the rule is about; NULL if there is none. */
static const char *label_of(const struct rank *r, enum rule rule)
{
	switch (rule) {
#define PLACE(rule, label) \
	case RULE_##rule:  \
		return r->label;
#include "diagnose/rules.def"
	default:
		return NULL;
	}
}

/* `whole`: the metrics of the whole job, at its peak, or NULL. */
static void add_finding(struct diagnosis *d, const struct rank *r, size_t rank, enum rule rule,
			const struct metrics *whole)
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
		.severity = rule_severity_of(m, rule, weight),
		.confidence = rule_confidence_of(m, rule, weight),
		.measured = rule_measured(rule),
		.is_informational = rules[rule].severity == RULE_INFO,
		.weight = weight,
		.tier = (int)rule_tier_of(m, rule, weight),
		.order = (int)rule,
	};

	diagnose_fill(&text, unfailed ? unfailed : rules[rule].message, m, &f);
	f.message = buf_take(&text);
	if (label)
		f.stack = xstrdup(label);
	for (size_t i = 0; i < ARRAY_SIZE(remedies); i++)
		if (remedies[i].rule == rule)
			remedies[i].add(&f, m, whole);
	if (f.remedy_count) {
		/* Thousands of ranks may have a finding each. */
		f.remedies = xrealloc(f.remedies, f.remedy_count, sizeof(*f.remedies));
		f.remedy_room = f.remedy_count;
	}
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

/* The metrics of the whole job, which has the settings and the data of the one that failed. */
static int find_whole(struct metrics *whole, const struct report *r, const struct metrics *m)
{
	if (!r->need || !r->need->metrics)
		return 0;
	*whole = *r->need->metrics;
	whole->micro_batch = m->micro_batch;
	whole->half_batch = m->half_batch;
	whole->setup_kept = m->setup_kept;
	return 1;
}

void diagnose(struct diagnosis *d, const struct report *r)
{
	const struct rank *worst = report_worst(r);
	size_t shown = worst ? (size_t)(worst - r->ranks) : 0;

	*d = (struct diagnosis){ 0 };
	diagnose_ranks(r);
	for (size_t i = 0; i < r->count; i++) {
		const struct metrics *m = r->ranks[i].metrics;
		struct metrics whole;
		int is_measured = m && i == shown && find_whole(&whole, r, m);

		for (enum rule k = 0; m && k < RULES; k++)
			if (rules[k].when(m))
				add_finding(d, &r->ranks[i], i, k, is_measured ? &whole : NULL);
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
