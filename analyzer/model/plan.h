/* Which layouts of a job fit on so many GPUs? Every one that divides evenly, estimated by document
 * 003's formulas: of what a layout may be they know tensor, pipeline, context and data parallelism,
 * micro-batches, and ZeRO-1. */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "model/model.h"

struct layout {
	/* 0: not reached before the layout was discarded. */
	int64_t t, p, c, d, micro_batch, micro_batches;
	wide total; /* of its largest stage */
	enum fit fit;
	double bubble; /* the part of a step that a stage waits */
	struct stage *stages;
	size_t stage_count;
	char *reason; /* why it was discarded, or NULL */
};

struct plan {
	const struct config *config;
	int64_t gpus, most_t;
	int margin; /* percent of a GPU that stays free */
	wide memory;
	/* The sizes that --fix gives; 0: any. */
	int64_t fix_t, fix_p, fix_c, fix_d, fix_micro_batch;
	struct layout *layouts, *discarded; /* layouts: the best first */
	size_t count, room, discarded_count, discarded_room;
};

/* -1: the job lacks something that every layout needs. `plan` is released in both cases. */
int plan_make(struct plan *plan, struct err *e);
void plan_release(struct plan *plan);

/* --fix tp=4, --fix micro_batch_size=2 … */
int plan_fix(struct plan *plan, const char *pair, struct err *e);

enum flags { FLAGS_NONE, FLAGS_MEGATRON, FLAGS_DEEPSPEED, FLAGS_TORCHTITAN, FLAGS_ACCELERATE };
/* The layout to paste, or why that launcher cannot have it. */
void plan_flags(const struct plan *plan, const struct layout *l, enum flags flags, struct buf *out);

struct style;
void plan_json(const struct plan *plan, enum flags flags, struct buf *out);
void plan_text(const struct plan *plan, enum flags flags, size_t top, const struct style *style,
	       struct buf *out);

#endif
