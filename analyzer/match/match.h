/*
 * What was observed at a trace's peak against what a system of estimates predicts: by component, by
 * term, and block by block where the system predicts blocks. Every observed byte is assigned to one
 * term or unexplained.
 */
#ifndef MEMTRACE_MATCH_H
#define MEMTRACE_MATCH_H

#include "config/rank_layout.h"
#include "estimate/estimate.h"
#include "report/report.h"

/* A gap that is worth a word, as a share of what was observed. */
#define MATCH_NOTABLE 0.005

struct match_component {
	const char *key;
	bytes estimated, observed;
	int fails; /* beyond its tolerance */
};

struct match_term {
	char *id, *component, *title;
	bytes estimated, observed;  /* predicted; of observed blocks that were assigned to it */
	uint64_t predicted, blocks; /* blocks; predicted 0: the system does not say how many */
};

/* Observed blocks that no term predicts, of one stack and category. */
struct match_stack {
	const char *stack; /* the report's */
	enum category category;
	bytes bytes;
	uint64_t blocks;
};

/* Blocks of one size that a term predicts and that were not there. */
struct match_missing {
	const char *id;
	bytes size, bytes;
	uint64_t blocks;
};

/* A declared value that, if it were another, would explain what was found. */
struct match_cause {
	const char *key, *meaning;
	char *declared, *value; /* declared NULL: nobody said */
	bytes gap;              /* that it would leave */
	bytes error_bytes;              /* and by how much the peak would be missed: tails tell too */
};

/* The peak of another configuration, as estimated, and between what limits it will be seen. */
struct match_what_if {
	int asked;
	bytes estimated, low, high;
};

struct match {
	const struct rank *rank;
	const struct system *system;
	int64_t stage;
	bytes estimated, observed;
	double error; /* (estimated - observed) / observed */
	int fails;
	struct match_component *components;
	size_t component_count;
	struct match_term *terms; /* largest observed first */
	size_t term_count;
	struct match_stack *unexplained; /* largest first */
	size_t unexplained_count;
	struct match_missing *missing; /* largest first */
	size_t missing_count;
	struct match_cause *causes; /* the best first; match_explain */
	size_t cause_count;
	struct match_what_if what_if;
};

/* By share of what is estimated; of components: negative where nobody asked. */
struct tolerances {
	double total, component[CATEGORIES];
};

/* Where the rank stands in its job's layout. */
struct rank_coordinates match_coordinates(const struct config *c, const struct rank *r);

struct inference;

struct matches {
	struct match *list;
	size_t count;
	const struct inference *inference; /* NULL: the configuration was declared */
	const struct config *config;	   /* what was inferred, and what was given */
	double tolerance;
};

/* `r` keeps the blocks of its peak (replay_options.keep_peak_blocks). -1: the system cannot say what the
 * job needs. */
int match_make(struct match *m, const struct rank *r, const struct system *system,
	       const struct config *c, const struct tolerances *t, struct err *e);
/* Found and not predicted, and predicted and not found. */
bytes match_gap(const struct match *m);
/* Is that worth a word? */
int match_has_gap(const struct match *m);
void match_release(struct match *m);
int matches_fail(const struct matches *m);
/* The worst rank first. */
void matches_sort(struct matches *m);
/* How far a component is off, if by more than MATCH_NOTABLE of the rank's peak; else 0. */
bytes match_category_error(const struct match *m, enum category c);

#endif
