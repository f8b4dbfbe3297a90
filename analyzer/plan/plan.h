/* Which layouts of a job fit on so many GPUs? Every one that divides evenly, estimated by one
 * system; what the system's source cannot express is discarded with that reason. */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "estimate/estimate.h"
#include "estimate/fit.h"

#define UNSET (-1)

enum discard {
	DISCARD_NONE,
	DISCARD_MEMORY,
	DISCARD_DIVIDES,
	DISCARD_LIMIT,
	DISCARD_REFUSED,       /* by the system, this layout */
	DISCARD_INEXPRESSIBLE, /* a whole dimension: one row for all of them */
	DISCARDS
};

struct plan_layout {
	/* UNSET: not reached before the layout was discarded, or of no account to the system.
	 * RECOMPUTE is enum recompute. */
	int64_t size[DIMENSIONS], micro_batches;
	int sequence_parallel;
	wide total; /* of its largest stage */
	enum fit fit;
	double bubble; /* the part of a step that a stage waits, over the part that it works */
	wide *stages;
	size_t stage_count;
	/* of those that are discarded */
	enum discard why;
	char *reason;
	int64_t count; /* layouts that the reason holds for */
};

struct plan_layouts {
	struct plan_layout *at;
	size_t count, room;
};

struct plan {
	const struct config *config;
	const struct system *system;
	int64_t gpus;
	int margin; /* percent of a GPU that stays free */
	wide memory;
	int64_t fix[DIMENSIONS];     /* UNSET: any */
	int most[DIMENSIONS];        /* 0: any */
	struct plan_layouts fitting; /* the best first */
	struct plan_layouts discarded;
	int64_t discarded_counts[DISCARDS];
};

void plan_init(struct plan *plan, const struct config *config);
/* Ours where the table has it, else the one with the most dimensions. */
const struct system *plan_default_system(void);
/* -1: the job lacks something that every layout needs. `plan` is released in both cases. */
int plan_make(struct plan *plan, struct err *e);
void plan_release(struct plan *plan);
/* The best first, each once. */
void plan_rank(struct plan_layouts *layouts);

/* --fix tp=4, --fix micro_batch_size=2, --fix recompute=full … */
int plan_fix(struct plan *plan, const char *pair, struct err *e);

extern const struct dimension_row {
	const char *name, *label, *what;
	enum config_field key;
} dimensions[DIMENSIONS];
extern const char *const recompute_names[RECOMPUTES];

enum plan_launcher {
	LAUNCHER_NONE,
	LAUNCHER_MEGATRON,
	LAUNCHER_DEEPSPEED,
	LAUNCHER_TORCHTITAN,
	LAUNCHER_ACCELERATE
};
/* The layout to paste, or why that launcher cannot have it. */
void plan_flags(const struct plan *plan, const struct plan_layout *l, enum plan_launcher launcher,
		struct buf *out);

#endif
