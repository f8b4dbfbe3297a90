/*
 * Compares the observed blocks at a trace's peak with a system's estimate: by component, by term,
 * and block by block if the system predicts blocks. Every observed byte has one term or is
 * unexplained.
 */
#ifndef MEMTRACE_MATCH_H
#define MEMTRACE_MATCH_H

#include "config/rank_layout.h"
#include "estimate/estimate.h"
#include "report/report.h"

/* A gap of this share of the observed bytes is notable. */
#define MATCH_NOTABLE 0.005

struct match_component {
	const char *key;
	bytes estimated, observed;
	int fails; /* beyond its tolerance */
};

struct match_term {
	char *id, *component, *title;
	bytes estimated, observed;  /* `observed`: of the blocks assigned to it */
	uint64_t predicted, blocks; /* numbers of blocks; predicted 0: the system has no blocks */
};

/* Observed blocks that no term predicts, of one stack and category. */
struct match_stack {
	const char *stack; /* the report's */
	enum category category;
	bytes bytes;
	uint64_t blocks;
};

/* Predicted blocks of one size and term that were not observed. */
struct match_missing {
	const char *id;
	bytes size, bytes;
	uint64_t blocks;
};

/* Another value of a key that would explain the gap. */
struct match_cause {
	const char *key, *meaning;
	char *declared, *value; /* declared NULL: not declared */
	bytes gap;              /* with this value */
	bytes error_bytes; /* |estimated - observed| with this value: unsplit tails count here */
};

/* The estimated peak of another configuration, and the range in which it is expected. */
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

/* The allowed error of a total, if none is given. */
#define MATCH_TOLERANCE 0.05

/* Allowed errors, as shares of the observed bytes. A negative one is not checked. */
struct tolerances {
	double total, component[CATEGORIES];
};

/* The rank's coordinates in its job's layout. */
struct rank_coordinates match_coordinates(const struct config *c, const struct rank *r);

struct inferred_config;

struct matches {
	struct match *list;
	size_t count;
	const struct inferred_config *inferred; /* NULL: the whole configuration was declared */
	const struct config *config;            /* inferred and given values */
	double tolerance;
};

/* `r` keeps the blocks of its peak (replay_options.keep_peak_blocks). -1: the system cannot say
 * what the job needs. */
int match_make(struct match *m, const struct rank *r, const struct system *system,
	       const struct config *c, const struct tolerances *t, struct err *e);
/* Bytes that are observed but not predicted, plus bytes that are predicted but not observed. */
bytes match_gap(const struct match *m);
/* Is the gap notable? */
int match_has_gap(const struct match *m);
void match_release(struct match *m);
int matches_fail(const struct matches *m);
/* The worst rank first. */
void matches_sort(struct matches *m);
/* Estimated minus observed bytes of a category, if more than MATCH_NOTABLE of the peak; else 0. */
bytes match_category_error(const struct match *m, enum category c);

#endif
