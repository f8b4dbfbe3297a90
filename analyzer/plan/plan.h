/*
 * The parallel layouts of a job that fit on a number of GPUs. One system estimates every layout
 * that divides evenly. All others are discarded with a reason.
 */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "estimate/estimate.h"
#include "estimate/fit.h"
#include "timing/step.h"

#define UNSET (-1)

enum discard {
	DISCARD_NONE,
	DISCARD_MEMORY,
	DISCARD_DIVIDES,
	DISCARD_LIMIT,
	DISCARD_REFUSED,       /* the system rejects the layout */
	DISCARD_INEXPRESSIBLE, /* the system has no formula for a value of one dimension */
	DISCARDS
};

struct plan_layout {
	/* UNSET: the layout was discarded earlier, or the system does not use the size.
	 * RECOMPUTE is enum recompute. */
	int64_t size[DIMENSIONS], micro_batches;
	int sequence_parallel;
	wide total; /* bytes of the largest stage */
	enum fit fit;
	double bubble; /* time that a stage waits in a step, divided by the time that it works */
	struct step_time time;
	wide *stages;
	size_t stage_count;
	/* Only of discarded layouts. */
	enum discard why;
	char *reason;
	int64_t count; /* number of layouts with this reason */
	/* Only of candidates. */
	int is_judged;
	struct plan_layout *smaller; /* the same with the next smaller micro-batch */
	struct plan_layout *plain;   /* the same without chunks */
};

struct plan_layouts {
	struct plan_layout *at;
	size_t count, room;
};

enum plan_order {
	ORDER_TIME,    /* the predicted time of a step */
	ORDER_DOCUMENT /* document 003 */
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
	enum plan_order order; /* ORDER_DOCUMENT if no time can be predicted */
	const char *assumed;   /* values that nothing declares, as words for people; NULL: none */
	int assumes_masks;     /* the times assume what builds_masks of struct system says */
	/* The number of green layouts after which a system that takes long stops: the rest is only
	 * counted, since it comes later in the order. 0: it judges every layout. */
	size_t enough;
	int64_t not_judged;
	int lists_stages; /* every layout has its stages, not only those that can be the largest */
	/* Called between layouts; may be NULL. */
	void (*progress)(const struct plan *plan, size_t judged, size_t all);
};

void plan_init(struct plan *plan, const struct config *config);
/* llama-4d: the fastest system that knows pipelines. */
const struct system *plan_default_system(void);
/* Searches. -1: a field that every layout needs is missing. The caller releases `plan` in both
 * cases. */
int plan_make(struct plan *plan, struct err *e);
void plan_release(struct plan *plan);
/* Sorts layouts, the best first, and removes those that do not differ for the system. */
void plan_rank(struct plan_layouts *layouts, enum plan_order order);
/* Only sorts. */
void plan_sort(struct plan_layouts *layouts, enum plan_order order);

/* --fix tp=4, --fix micro_batch_size=2, --fix recompute=full ... */
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
	LAUNCHER_ACCELERATE,
	/* The names that the configuration has for frameworks. */
	LAUNCHER_MEGATRON_CORE,
	LAUNCHER_TRANSFORMERS
};
/* Appends the layout as flags of a launcher, or the reason why the launcher cannot have it. */
void plan_flags(const struct plan *plan, const struct plan_layout *l, enum plan_launcher launcher,
		struct buf *out);

#endif
