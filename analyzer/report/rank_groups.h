/*
 * The processes of a report as the ranks of one job: their coordinates in the parallel layout,
 * groups of ranks that should need the same, outliers of a group, missing ranks.
 */
#ifndef MEMTRACE_RANK_GROUPS_H
#define MEMTRACE_RANK_GROUPS_H

#include "util/buf.h"
#include "config/rank_layout.h"
#include "report/report.h"

struct config;

enum level { LEVEL_ALLOCATED, LEVEL_RESERVED, LEVEL_DEVICE, LEVELS };
const char *level_key(enum level m);
/* The peak of a level. The device's may be UNKNOWN_BYTES. */
bytes rank_level(const struct rank *r, enum level m);

#define NO_GROUP SIZE_MAX

/* The position of an entry of the report in the job. */
struct rank_position {
	struct rank_coordinates coordinates; /* NO_RANK on every axis: unknown */
	size_t group; /* NO_GROUP: a further device of a process that has a position */
};

/* Ranks that should need the same memory: a pipeline stage, or, without a known layout, ranks that
 * do need the same. */
struct rank_group {
	int stage;           /* NO_RANK: the layout is unknown */
	size_t *ranks;       /* indices of the report's entries */
	size_t count, worst; /* worst: the rank with the highest peak of allocated */
	bytes median[LEVELS],
		deviation[LEVELS]; /* the median of |value - median|; of known values */
	bytes least, most;         /* peaks of allocated */
	uint32_t last_step;        /* half of the ranks reached it */
};

/* A rank that differs from its group. */
struct outlier {
	size_t rank; /* index of the report's entry */
	enum level level;
	bytes value, median, deviation; /* of LEVEL_ALLOCATED: up to the last step of the rank */
	uint32_t step;                  /* the first step in which it differed; 0: unknown */
};

struct ranks {
	int world;
	int is_placed; /* the layout is known */
	struct rank_layout layout;
	struct rank_position *positions; /* of each entry of the report */
	struct rank_group *groups;       /* by stage, or the largest first */
	size_t group_count;
	struct outlier *outliers; /* the largest difference first */
	size_t outlier_count;
	int *missing; /* ranks without a trace */
	size_t missing_count;
	const struct unreadable_file
		*unreadable; /* files that cannot be read; they belong to the session */
	size_t unreadable_count;
};

/* Looks at a sorted report's ranks as one job: sets `as_job`, if they are several of one run, and
 * their positions. `c` may be NULL: nothing is declared. */
void ranks_relate(struct report *r, const struct config *c);
void ranks_free(struct ranks *ranks);

/* Adds ascending numbers as "0-3, 7": at most `most` ranges. */
void ranks_list(struct buf *b, const int *numbers, size_t count, size_t most);

#endif
