/*
 * The coordinates of a rank in the parallel layout of its job: Megatron's order of axes, which
 * torchtitan's meshes and DeepSpeed's pipelines share.
 */
#ifndef CONFIG_RANK_LAYOUT_H
#define CONFIG_RANK_LAYOUT_H

#include "config/config.h"

/* X(ID, key in JSON, field): the axes of a layout. Tensor parallelism varies fastest. Expert
 * parallelism is a second division of the ranks of one stage. */
#define RANK_AXES(X)                            \
	X(TP, "tp", tensor_model_parallel_size) \
	X(CP, "cp", context_parallel_size)      \
	X(EP, "ep", expert_model_parallel_size) \
	X(DP, "dp", data_parallel_size)         \
	X(PP, "pp", pipeline_model_parallel_size)
enum axis {
#define X(id, key, field) AXIS_##id,
	RANK_AXES(X)
#undef X
		AXES
};

/* "tp", "cp" ... */
const char *axis_key(enum axis a);

struct rank_layout {
	int64_t size[AXES];     /* ranks along each axis, at least 1 */
	int64_t expert_tensor;  /* the experts' own tensor-parallel size */
	int stages_before_data; /* Megatron's --use-tp-pp-dp-mapping */
};

/* Index along each axis, from 0. */
struct rank_coordinates {
	int at[AXES];
};

/* Reads the layout of `world` ranks that `c` declares. Returns 0 if `c` declares no layout, or one
 * that `world` ranks cannot have. */
int rank_layout_read(struct rank_layout *l, const struct config *c, int world);

struct rank_coordinates rank_coordinates(const struct rank_layout *l, int rank);

#endif
