/* Searches the values that the sizes leave open: estimates alternatives and compares them with the
 * blocks at the peak. */
#include "infer/infer_search.h"
#include "readers/derive.h"
#include "readers/native.h"

#include <stdlib.h>
#include <string.h>

#include "infer/infer_likeness.h"
#include "match/alternatives.h"
#include "match/match.h"
#include "systems/memtrace.h"
#include "util/buf.h"
#include "util/size.h"

#define ROUNDS 4    /* over all keys, because one key may depend on another */
#define HINT 16     /* 1/HINT of a peak's error counts: the errors of two wrong values may cancel */
#define SCALER 1024 /* least bytes of blocks that show a gradient scaler */

/* A tolerance for nothing: the bytes are asked, not the verdict. */
static int match_with(struct match *m, const struct config *c, const struct observed_rank *w,
		      struct err *e)
{
	struct tolerances any = { .total = 0 };

	for (size_t i = 0; i < CATEGORIES; i++)
		any.component[i] = -1;
	*m = (struct match){ 0 };
	return match_make(m, w->rank, &memtrace, c, &any, e);
}

void infer_refusal(const struct config *c, const struct observed_rank *w, struct err *e)
{
	struct match m;

	match_with(&m, c, w, e);
	match_release(&m);
}

/* `off`: NULL, or the sum of the peaks' errors. */
static bytes gap_and_error(const struct config *c, const struct observed_rank *w, size_t count,
			   bytes *off)
{
	bytes sum = 0;

	for (size_t i = 0; i < count; i++) {
		struct err e = { 0 };
		struct match m;

		if (!w[i].rank->peak_allocated)
			continue;
		if (match_with(&m, c, &w[i], &e) < 0) {
			match_release(&m);
			return -1;
		}
		sum = bytes_add(sum, match_gap(&m));
		if (off)
			*off = bytes_add(*off, llabs(m.estimated - m.observed));
		match_release(&m);
	}
	return sum;
}

bytes infer_gap(const struct config *c, const struct observed_rank *w, size_t count, bytes enough)
{
	bytes off = 0, gap = gap_and_error(c, w, count, &off);

	if (gap < 0)
		return gap;
	if (enough >= 0 && bytes_add(gap, off / HINT) >= enough)
		return bytes_add(gap, off / HINT);
	for (size_t i = 0; i < count; i++)
		off = bytes_add(off, (bytes)((1 - infer_likeness(c, &w[i])) *
					     (double)w[i].rank->peak_allocated));
	return bytes_add(gap, off / HINT);
}

bytes infer_observed(const struct observed_rank *w, size_t count)
{
	bytes sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = bytes_add(sum, w[i].rank->peak_allocated);
	return sum;
}

static bytes gap_with(const struct config *c, enum config_field f, const char *value,
		      const struct observed_rank *w, size_t count, bytes enough)
{
	struct config other;
	bytes gap = -1;

	config_init(&other);
	config_copy(&other, c);
	if (!alternative_set(&other, f, value, "inferred"))
		gap = infer_gap(&other, w, count, enough);
	config_release(&other);
	return gap;
}

struct search_result {
	char best[ALTERNATIVE_LENGTH], next[ALTERNATIVE_LENGTH];
	bytes gap, next_gap; /* -1: none can be estimated */
};

static void try_values(struct search_result *o, const struct config *c, size_t row,
		       const struct observed_rank *w, size_t count)
{
	bytes clearly = (bytes)(CLEARLY * (double)infer_observed(w, count));
	const char *at = alternatives[row].search;
	char value[ALTERNATIVE_LENGTH];

	*o = (struct search_result){ .gap = -1, .next_gap = -1 };
	while (alternatives_next(&at, value)) {
		bytes gap;

		gap = gap_with(c, alternatives[row].field, value, w, count,
			       o->gap < 0 ? -1 : bytes_add(o->gap, clearly));
		if (gap < 0)
			continue;
		if (o->gap < 0 || gap < o->gap) {
			o->next_gap = o->gap;
			memcpy(o->next, o->best, sizeof(value));
			o->gap = gap;
			memcpy(o->best, value, sizeof(value));
		} else if (o->next_gap < 0 || gap < o->next_gap) {
			o->next_gap = gap;
			memcpy(o->next, value, sizeof(value));
		}
	}
}

/* How much worse the next value would be. Without one, the values that the estimate refuses. */
static void add_evidence(struct buf *out, size_t row, const struct search_result *o)
{
	const char *at = alternatives[row].search, *before = "";
	char value[ALTERNATIVE_LENGTH];

	if (o->next_gap >= 0) {
		buf_addf(out, "%s would be ", strcmp(o->next, "~") ? o->next : "none");
		size_add(out, o->next_gap - o->gap, 0);
		buf_puts(out, " further off");
		return;
	}
	buf_puts(out, "the job cannot be estimated with ");
	while (alternatives_next(&at, value))
		if (strcmp(value, o->best) != 0) {
			buf_addf(out, "%s%s", before, strcmp(value, "~") ? value : "none");
			before = " or ";
		}
}

/* Lists the result of a search, with how much worse the next value would be. */
static void add_result(struct inferred_config *i, struct config *c, size_t row,
		       const struct search_result *o, const struct observed_rank *w, size_t count)
{
	enum config_field f = alternatives[row].field;
	struct buf evidence = { 0 };
	double worse = o->next_gap < 0 ? 1
				       : (double)(o->next_gap - o->gap) /
						 (double)(infer_observed(w, count) + 1);

	if (o->gap < 0)
		return;
	config_unset(c, f);
	if (worse < WORSE && infer_gap(c, w, count, 0) >= 0) {
		inferred_undetermined(i, f, "%s leaves the same at the peak as %s",
				      strcmp(o->next, "~") ? o->next : "no value",
				      strcmp(o->best, "~") ? o->best : "no value");
		return;
	}
	if (!strcmp(o->best, "~"))
		return;
	add_evidence(&evidence, row, o);
	inferred_add(i, c, f, worse < CLEARLY ? INFERRED_GUESS : INFERRED_LIKELY, o->best, "%s",
		     evidence.text);
	buf_release(&evidence);
}

/* fp16 and bf16 have the same sizes, but fp16 needs a scaler of the loss. Its few small blocks are
 * visible if everything else is right: they close most of the gap. */
static void search_scaler(struct inferred_config *i, struct config *c,
			  const struct observed_rank *w, size_t count)
{
	struct inferred *told = inferred_find(i, CONFIG_precision);
	struct err e = { 0 };
	struct config other;
	bytes off = 0, off_scaled = 0, gap = gap_and_error(c, w, count, &off), scaled;
	struct buf more = { 0 };
	char *value;

	if (!told || strncmp(told->value, "bf16", 4))
		return;
	value = xasprintf("fp16%s", told->value + 4);
	config_init(&other);
	config_copy(&other, c);
	if (!alternative_set(&other, CONFIG_precision, value, "inferred") &&
	    !alternative_set(&other, CONFIG_grad_scaler, "true", "inferred") &&
	    (scaled = gap_and_error(&other, w, count, &off_scaled)) >= 0 &&
	    gap - scaled >= SCALER && scaled <= gap / 2 && off_scaled < off &&
	    !config_set(c, "precision", value, "inferred", &e)) {
		free(told->value);
		told->value = xstrdup(value);
		told->confidence = INFERRED_LIKELY;
		size_add(&more, gap - scaled, 0);
		inferred_add(i, c, CONFIG_grad_scaler, INFERRED_LIKELY, "true",
			     "without it %s more would be missing or unexplained", more.text);
	}
	config_release(&other);
	buf_release(&more);
	free(value);
}

void infer_search(struct inferred_config *i, struct config *c, const struct observed_rank *w,
		  size_t count)
{
	unsigned char *open = xcalloc(alternatives_count, 1);
	struct search_result o;
	int changed = 1;

	for (size_t s = 0; s < alternatives_count; s++)
		open[s] = *alternatives[s].search && (!config_has(c, alternatives[s].field) ||
						      config_is_derived(c, alternatives[s].field));
	for (int round = 0; round < ROUNDS && changed; round++) {
		changed = 0;
		for (size_t s = 0; s < alternatives_count; s++) {
			enum config_field f = alternatives[s].field;
			bytes now;

			if (!open[s] || !alternatives_apply(c, s))
				continue;
			now = infer_gap(c, w, count, -1);
			try_values(&o, c, s, w, count);
			if (o.gap < 0 || (now >= 0 && o.gap >= now))
				continue;
			changed |= !alternative_set(c, f, o.best, "inferred");
		}
	}
	search_scaler(i, c, w, count);
	for (size_t s = 0; s < alternatives_count; s++) {
		if (!open[s] || !alternatives_apply(c, s) ||
		    inferred_find(i, alternatives[s].field))
			continue;
		try_values(&o, c, s, w, count);
		add_result(i, c, s, &o, w, count);
	}
	free(open);
}
