/* The dimensions of a layout, and the part of them that a system has formulas for. */
#ifndef MODEL_DIMENSION_H
#define MODEL_DIMENSION_H

/* X(ID, short name, field, label, name of the technique) */
#define DIMENSION_ROWS(X)                                                                         \
	X(TP, tp, tensor_model_parallel_size, "tensor size", "tensor parallelism")                \
	X(PP, pp, pipeline_model_parallel_size, "pipeline size", "pipeline parallelism")          \
	X(CP, cp, context_parallel_size, "context size", "context parallelism")                   \
	X(DP, dp, data_parallel_size, "data-parallel size", "data parallelism")                   \
	X(VPP, vpp, virtual_pipeline_model_parallel_size, "chunks a stage", "interleaved stages") \
	X(EP, ep, expert_model_parallel_size, "expert size", "expert parallelism")                \
	X(MBS, mbs, micro_batch_size, "micro-batch", "micro-batches")                             \
	X(RECOMPUTE, recompute, recompute_granularity, "recomputation", "recomputation")          \
	X(ZERO, zero, zero_stage, "ZeRO stage", "ZeRO")

enum dimension {
#define X(id, name, key, label, what) DIM_##id,
	DIMENSION_ROWS(X)
#undef X
		DIMENSIONS
};

#define BIT(n) (1u << (n))

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTES };

/* The layouts that a system has formulas for. `plan` tries them and discards all others with a
 * reason. */
struct space {
	unsigned sizes;     /* BIT(DIM_...) of the sizes, TP to MBS, that may be more than 1 */
	unsigned recompute; /* BIT(RECOMPUTE_...) */
	unsigned zero;      /* BIT(stage) */
};

/* Every layout. */
#define SPACE_EVERYTHING                                                \
	{                                                               \
		BIT(DIM_RECOMPUTE) - 1, BIT(RECOMPUTES) - 1, BIT(4) - 1 \
	}

#endif
