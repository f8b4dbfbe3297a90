/*
 * The processes of a report as the ranks of one job: where each stands in the parallel layout,
 * which are alike, which stick out from those they should be like, which are not there.
 */
#ifndef MEMTRACE_RANK_GROUPS_H
#define MEMTRACE_RANK_GROUPS_H

#include "util/buf.h"
#include "config/rank_layout.h"
#include "report/report.h"

struct config;

enum level { LEVEL_ALLOCATED, LEVEL_RESERVED, LEVEL_DEVICE, LEVELS };
const char *level_key(enum level m);
bytes rank_level(const struct rank *r, enum level m);

#define NO_GROUP SIZE_MAX

/* Where an entry of the report is in the job. */
struct rank_position {
	struct rank_coordinates coordinates; /* NO_RANK on every axis: unknown */
	size_t group; /* NO_GROUP: a further device of a process that has a position */
};

/* Ranks that should need the same: a pipeline stage, or without a known layout ranks that do. */
struct rank_group {
	int stage;      /* NO_RANK: by likeness */
	size_t *ranks;  /* indices of the report's entries */
	size_t count, worst; /* the one with the largest peak of tensors */
	bytes median[LEVELS], deviation[LEVELS]; /* the median of |value - median| */
	bytes least, most;                           /* of tensors' peaks */
	uint32_t last_step; /* that half of them reached */
};

/* A rank that is not like its group. */
struct outlier {
	size_t rank; /* index of the report's entry */
	enum level level;
	bytes value, median, deviation; /* of `allocated`: up to the last step that it reached */
	uint32_t step; /* from which on it was off; 0 unknown */
};

struct ranks {
	int world;
	int is_placed; /* the layout is known */
	struct rank_layout layout;
	struct rank_position *positions; /* of each entry of the report */
	struct rank_group *groups; /* by stage, or the largest first */
	size_t group_count;
	struct outlier *outliers; /* the largest difference first */
	size_t outlier_count;
	int *missing; /* ranks of which there is no trace */
	size_t missing_count;
	const struct unreadable_file *unreadable; /* files that cannot be read; someone else's */
	size_t unreadable_count;
};

/* Looks at a sorted report's ranks as one job: sets `as_job`, if they are several of one run, and
 * their positions. `c` may be NULL: nothing is declared. */
void ranks_relate(struct report *r, const struct config *c);
void ranks_free(struct ranks *ranks);

/* "0-3, 7" of ascending numbers, at most `most` runs of them. */
void ranks_list(struct buf *b, const int *numbers, size_t count, size_t most);

#endif
