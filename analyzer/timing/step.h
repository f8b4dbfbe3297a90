/* The time of one training step: arithmetic, recomputation, the pipeline's bubble, and the
 * communication that nothing hides. */
#ifndef TIMING_STEP_H
#define TIMING_STEP_H

#include "estimate/dimension.h"
#include "timing/model_sizes.h"

struct step_layout {
	double size[DIMENSIONS], micro_batches;
	int sequence_parallel;
};

/* X(member, JSON key): the parts add up to the step. */
#define STEP_PARTS(X)                     \
	X(arithmetic, "arithmetic")       \
	X(recomputation, "recomputation") \
	X(tensor, "tensor_parallel")      \
	X(context, "context_parallel")    \
	X(experts, "expert_parallel")     \
	X(pipeline, "pipeline_messages")  \
	X(bubble, "bubble")               \
	X(data, "data_parallel")          \
	X(optimizer, "optimizer")         \
	X(loader, "data_loader")

struct step_time {
	double seconds; /* 0: not known */
#define X(member, key) double member;
	STEP_PARTS(X)
#undef X
	double tokens; /* a second and GPU */
	double mfu;    /* the model's operations, divided by the data sheets' */
};

/* The inputs that depend only on the job. */
struct step_job {
	struct gpu_speed gpu;
	struct model_sizes model;
};
/* 0: the GPU or a size is not known. */
int step_job_read(struct step_job *job, const struct config *c);

struct step_time step_time(const struct step_job *job, const struct step_layout *l);

#endif
