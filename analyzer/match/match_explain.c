#include "match/match_explain.h"
#include "config/derive.h"
#include "config/native.h"
#include "systems/memtrace.h"

#include <stdlib.h>
#include <string.h>

/* A value is a cause where it leaves at most this share of the gap, and as good as the best where
 * it leaves at most this much more. */
#define DECISIVE 0.5
#define AS_GOOD 0.02
/* Blocks may all be found, and yet the peak be missed: tails hide a few rows of the vocabulary. So
 * much of the peak is worth a word, where another number of rows leaves at most this part of it. */
#define WORTH_OFF 0.0001
#define LEFT_OFF 0.0625

static const struct {
	enum config_field field;
	const char *alternatives, *meaning;
} hypotheses[] = {
#define HYPOTHESIS(key, alternatives, meaning) { CONFIG_##key, alternatives, meaning },
#include "match/match_hypotheses.def"
#undef HYPOTHESIS
};

/* The alternative as a value. NULL: there is none, or it is what is declared. */
static char *value_of(const struct config *c, enum config_field f, const char *word, size_t length)
{
	struct buf declared = { 0 };
	char *value = xasprintf("%.*s", (int)length, word);
	long long is, by = length > 1 ? strtoll(value + 1, NULL, 10) : 0, now = -1;

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

/* The declared configuration with one value changed, matched again. -1: nobody could run that. */
static int try_value(const struct match *m, const struct config *c, const struct tolerances *t,
		     enum config_field f, const char *value, struct match_cause *found)
{
	struct config other;
	struct match again = { 0 };
	struct err e = { 0 };
	int status = 0;

	config_init(&other);
	config_copy(&other, c);
	if (!strcmp(value, "~"))
		config_unset(&other, f);
	else
		status = config_set(&other, config_name(f), value, "--set", &e);
	/* positions follow, where the model learns them */
	if (!status && f == CONFIG_seq_length &&
	    config_has(&other, CONFIG_max_position_embeddings) &&
	    other.max_position_embeddings < other.seq_length)
		status = config_set(&other, "max_position_embeddings", value, "--set", &e);
	if (!status)
		status = config_derive(&other, &e);
	if (!status) {
		status = match_make(&again, m->rank, m->system, &other, t, &e);
		found->gap = match_gap(&again);
		found->off = llabs(again.estimated - again.observed);
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
	if (config_has(c, hypotheses[row].field))
		config_value(c, hypotheses[row].field, &declared);
	*cause = (struct match_cause){ .key = config_name(hypotheses[row].field),
				       .meaning = hypotheses[row].meaning,
				       .declared = declared.text ? buf_take(&declared) : NULL,
				       .value = value,
				       .gap = found->gap,
				       .off = found->off };
	buf_release(&declared);
}

/* "/2" and "-4" may be the same. */
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
		return x->gap < y->gap ? -1 : 1;
	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	/* of two that explain it alike, that somebody declared can be wrong */
	if (!x->declared != !y->declared)
		return !x->declared - !y->declared;
	return strcmp(x->key, y->key);
}

/* Only the best, and those as good. */
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
	bytes worth = (bytes)(MATCH_WORTH * (double)m->observed), most = off > worth ? off : worth;
	int by_gap = match_has_gap(m);

	/* a peak that is met says nothing against what is declared: other blocks are another
	 * moment's */
	if (m->system != &memtrace || (double)off < WORTH_OFF * (double)m->observed)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(hypotheses); i++) {
		if (!by_gap && !is_rows(hypotheses[i].field))
			continue;
		for (const char *word = hypotheses[i].alternatives; *word;) {
			size_t length = strcspn(word, " ");
			char *value = value_of(c, hypotheses[i].field, word, length);

			if (value && !is_known(m, hypotheses[i].field, value) &&
			    !try_value(m, c, t, hypotheses[i].field, value, &left) &&
			    (by_gap ? left.off <= most && (double)left.gap <= DECISIVE * (double)gap
				    : left.gap <= gap &&
					      (double)left.off <= LEFT_OFF * (double)off))
				add_cause(m, c, i, value, &left);
			else
				free(value);
			word += length + (word[length] == ' ');
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
