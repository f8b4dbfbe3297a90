/*
 * The processes of a report as the ranks of one job: where each stands in the parallel layout,
 * which are alike, which stick out from those they should be like, which are not there.
 */
#ifndef MEMTRACE_RANK_GROUPS_H
#define MEMTRACE_RANK_GROUPS_H

#include "util/buf.h"
#include "report/report.h"

struct config;

/* The axes of a layout, fastest first. Experts share the ranks of a stage in their own way. */
#define RANK_AXES(X)                         \
	X(TP, "tp", tensor_model_parallel_size)   \
	X(CP, "cp", context_parallel_size)        \
	X(EP, "ep", expert_model_parallel_size)   \
	X(DP, "dp", data_parallel_size)           \
	X(PP, "pp", pipeline_model_parallel_size)
enum axis {
#define X(id, key, field) AXIS_##id,
	RANK_AXES(X)
#undef X
		AXES
};
const char *axis_key(enum axis a);

struct layout {
	int64_t size[AXES];
	int64_t expert_tensor; /* the experts' own tensor-parallel size */
	int stages_before_data; /* Megatron's --use-tp-pp-dp-mapping */
};

enum level { LEVEL_ALLOCATED, LEVEL_RESERVED, LEVEL_DEVICE, LEVELS };
const char *level_key(enum level m);
bytes rank_level(const struct rank *r, enum level m);

#define NO_GROUP SIZE_MAX

/* Of each entry of the report. */
struct seat {
	int at[AXES]; /* NO_RANK: unknown */
	size_t group; /* NO_GROUP: it is another device of a process that has a seat */
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
	struct layout layout;
	struct seat *seats;
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
 * their seats. `c` may be NULL: nothing is declared. */
void ranks_relate(struct report *r, const struct config *c);
void ranks_free(struct ranks *ranks);

/* The layout of `world` ranks that `c` declares; returns whether it does. `command` is the job's
 * command line, or NULL. */
int layout_read(struct layout *l, const struct config *c, const char *command, int world);
void layout_place(const struct layout *l, int rank, int at[AXES]);

/* "0-3, 7" of ascending numbers, at most `most` runs of them. */
void ranks_list(struct buf *b, const int *numbers, size_t count, size_t most);

#endif
