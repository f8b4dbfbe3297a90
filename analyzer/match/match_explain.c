#include "match/match_explain.h"
#include "readers/derive.h"
#include "readers/native.h"
#include "systems/memtrace.h"

#include "match/alternatives.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* A value is a cause if it leaves at most DECISIVE of the gap. It is as good as the best one if it
 * leaves at most AS_GOOD of the gap more. */
#define DECISIVE 0.5
#define AS_GOOD 0.02
/* All blocks may be paired although the peak is missed, because unsplit tails hide a few rows of
 * the vocabulary. An error of NOTABLE_ERROR of the peak is explained if another number of rows
 * leaves at most REMAINING_ERROR of it. */
#define NOTABLE_ERROR 0.0001
#define REMAINING_ERROR 0.0625

/* The alternative as a value. NULL: there is none, or it is what is declared. */
static char *value_of(const struct config *c, enum config_field f, const char *word)
{
	struct buf declared = { 0 };
	char *value = xstrdup(word);
	long long is, by = strtoll(value + 1, NULL, 10), now = -1;

	if (config_has(c, f))
		config_value(c, f, &declared);
	is = declared.text ? strtoll(declared.text, NULL, 10) : 0;
	if (strchr("*/+-", *value) && by > 0) {
		if (*value == '*')
			now = is * by;
		else if (*value == '/')
			now = is % by ? -1 : is / by;
		else
			now = *value == '+' ? is + by : is - by;
		free(value);
		value = is > 0 && now > 0 ? xasprintf("%lld", now) : NULL;
	}
	if (value && declared.text && !strcmp(value, declared.text)) {
		free(value);
		value = NULL;
	}
	buf_release(&declared);
	return value;
}

/* Matches again with one value changed. Returns -1 if the changed configuration is invalid. */
static int try_value(const struct match *m, const struct config *c, const struct tolerances *t,
		     enum config_field f, const char *value, struct match_cause *found)
{
	struct config other;
	struct match again = { 0 };
	struct err e = { 0 };
	int status;

	config_init(&other);
	config_copy(&other, c);
	status = alternative_set(&other, f, value, "--set");
	if (!status) {
		status = match_make(&again, m->rank, m->system, &other, t, &e);
		found->gap = match_gap(&again);
		found->error_bytes = llabs(again.estimated - again.observed);
		match_release(&again);
	}
	config_release(&other);
	return status;
}

static void add_cause(struct match *m, const struct config *c, size_t row, char *value,
		      const struct match_cause *found)
{
	struct match_cause *cause;
	struct buf declared = { 0 };

	m->causes = xrealloc(m->causes, m->cause_count + 1, sizeof(*m->causes));
	cause = &m->causes[m->cause_count++];
	if (config_has(c, alternatives[row].field))
		config_value(c, alternatives[row].field, &declared);
	*cause = (struct match_cause){ .key = config_name(alternatives[row].field),
				       .meaning = alternatives[row].meaning,
				       .declared = declared.text ? buf_take(&declared) : NULL,
				       .value = value,
				       .gap = found->gap,
				       .error_bytes = found->error_bytes };
	buf_release(&declared);
}

/* Is the value listed? "/2" and "-4" may give the same. */
static int is_known(const struct match *m, enum config_field f, const char *value)
{
	for (size_t i = 0; i < m->cause_count; i++)
		if (m->causes[i].key == config_name(f) && !strcmp(m->causes[i].value, value))
			return 1;
	return 0;
}

static int gap_order(const void *a, const void *b)
{
	const struct match_cause *x = a, *y = b;

	if (x->gap != y->gap)
		return ORDER(x->gap, y->gap);
	if (x->error_bytes != y->error_bytes)
		return ORDER(x->error_bytes, y->error_bytes);
	/* of two that explain the gap equally well, the declared one comes first: it can be wrong
	 */
	if (!x->declared != !y->declared)
		return !x->declared - !y->declared;
	return strcmp(x->key, y->key);
}

/* Keeps the best cause and those that are as good. */
static void keep_best(struct match *m)
{
	size_t kept = 0;
	double most;

	if (!m->cause_count)
		return;
	qsort(m->causes, m->cause_count, sizeof(*m->causes), gap_order);
	most = (double)m->causes[0].gap + AS_GOOD * (double)match_gap(m);
	for (size_t i = 0; i < m->cause_count; i++) {
		if ((double)m->causes[i].gap <= most) {
			m->causes[kept++] = m->causes[i];
			continue;
		}
		free(m->causes[i].declared);
		free(m->causes[i].value);
	}
	m->cause_count = kept;
}

static int is_rows(enum config_field f)
{
	return f == CONFIG_vocab_size || f == CONFIG_make_vocab_size_divisible_by;
}

void match_explain(struct match *m, const struct config *c, const struct tolerances *t)
{
	struct match_cause left = { .gap = 0 };
	bytes gap = match_gap(m), off = llabs(m->estimated - m->observed);
	bytes worth = (bytes)(MATCH_NOTABLE * (double)m->observed),
	      most = off > worth ? off : worth;
	int by_gap = match_has_gap(m);

	/* If the peak is met, nothing is wrong with the declared values: different blocks belong to
	 * another moment. */
	if (m->system != &memtrace || (double)off < NOTABLE_ERROR * (double)m->observed)
		return;
	for (size_t i = 0; i < alternatives_count; i++) {
		const char *at = alternatives[i].explain;
		char word[ALTERNATIVE_LENGTH];

		if (!by_gap && !is_rows(alternatives[i].field))
			continue;
		while (alternatives_next(&at, word)) {
			char *value = value_of(c, alternatives[i].field, word);

			if (value && !is_known(m, alternatives[i].field, value) &&
			    !try_value(m, c, t, alternatives[i].field, value, &left) &&
			    (by_gap ? left.error_bytes <= most &&
					      (double)left.gap <= DECISIVE * (double)gap
				    : left.gap <= gap && (double)left.error_bytes <=
								 REMAINING_ERROR * (double)off))
				add_cause(m, c, i, value, &left);
			else
				free(value);
		}
	}
	keep_best(m);
}

int match_is_alike(const struct match *a, const struct match *b)
{
	return a->stage == b->stage && a->observed == b->observed && a->estimated == b->estimated &&
	       match_gap(a) == match_gap(b);
}

void match_explain_as(struct match *m, const struct match *other)
{
	m->causes = xcalloc(other->cause_count + 1, sizeof(*m->causes));
	m->cause_count = other->cause_count;
	for (size_t i = 0; i < m->cause_count; i++) {
		m->causes[i] = other->causes[i];
		m->causes[i].value = xstrdup(m->causes[i].value);
		if (m->causes[i].declared)
			m->causes[i].declared = xstrdup(m->causes[i].declared);
	}
}
