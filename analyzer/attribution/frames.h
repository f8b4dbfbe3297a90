/* The meaning of Python frames: the rows of frames.def, matched once for each frame of a trace. */
#ifndef MEMTRACE_FRAMES_H
#define MEMTRACE_FRAMES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/tables.h"

/* The activity of the job, from all frames of a stack: FLAG rows. */
enum stack_flag {
	STACK_PYTORCH = 1,       /* the calling module is PyTorch's allocator, libc10_cuda.so */
	STACK_FRAMES = 1 << 1,   /* there is a Python stack */
	STACK_MODULE = 1 << 2,   /* the forward pass of an nn.Module */
	STACK_LOSS = 1 << 3,     /* a loss function */
	STACK_NO_GRAD = 1 << 4,  /* torch.no_grad() around the model, not inside of it */
	STACK_BACKWARD = 1 << 5, /* backward() */
	STACK_RECOMPUTE = 1 << 6,
	STACK_OPTIMIZER = 1 << 7,
	STACK_CLIPPING = 1 << 8,
	STACK_ZERO_GRAD = 1 << 9,
	STACK_SAVING = 1 << 10,
	STACK_LOADING = 1 << 11,
	STACK_EVALUATION = 1 << 12, /* an evaluation loop around the model */
	STACK_INIT = 1 << 13,       /* a constructor */
	STACK_PIPELINE = 1 << 14,   /* the schedule of a pipeline */
	STACK_CLOSURE = 1 << 15,    /* an optimizer's step calls the job's closure */
};

/* The kind of a block as its stack suggests it: HINT rows. classify.c decides. */
enum block_hint {
	HINT_NOTHING,
	HINT_PARAMETERS,
	HINT_BUFFERS,
	HINT_STATES,
	HINT_INPUTS,
	HINT_WORKSPACES,
	HINT_KV_CACHE,     /* in training, activations */
	HINT_STATIC_CACHE, /* a cache of its whole length, which no training has */
	HINT_COMMUNICATION,
	HINT_BUCKETS,  /* DDP's buckets: communication, or the gradients themselves */
	HINT_REDUCED,  /* communication, or a gradient if it outlives the backward pass */
	HINT_RECEIVED, /* from another pipeline stage */
	HINT_UNKNOWN,  /* unknown: allocated before a profile began */
	HINT_GRADIENTS,
	HINT_COPIES, /* of weights, in no module */
	/* One function allocates blocks of several kinds: the order of its lines decides, see
	 * block_info.c. */
	HINT_APPLY,
	HINT_NORM,
	HINT_PARAM_AND_GRAD,
	HINT_IPG_AND_GRADIENTS,
};

/* Tags of a stack, for diagnosis rules: TAG rows. */
enum stack_tag {
#define TAG(id, meaning) TAG_##id,
#include "attribution/tags.def"
#undef TAG
	TAGS
};
/* Tags of a stack: bits 1 << enum stack_tag. */
typedef unsigned __int128 stack_tags;
static_assert(TAGS <= 128, "tags are bits of one number");
#define TAGGED(id) ((stack_tags)1 << TAG_##id)
/* The name of its row, for files that outlive the order of the rows. */
const char *stack_tag_name(enum stack_tag tag);

/* The kind of a single frame: FRAME rows. */
enum frame_kind {
	FRAME_LIBRARY = 1,          /* PyTorch's own code, which labels pass over */
	FRAME_MODULE_CALL = 1 << 1, /* nn.Module.__call__ */
	FRAME_FSDP = 1 << 2,        /* of torch.distributed.fsdp */
	FRAME_FORWARD = 1 << 3,     /* a forward() method */
	FRAME_ZERO_BUCKET = 1 << 4, /* allocates the buckets of DeepSpeed's ZeRO */
	FRAME_DISPATCH = 1 << 5, /* PyTorch chooses a kernel in Python: says nothing of the job */
	FRAME_CLOSURE = 1 << 6,  /* what an optimizer's step calls: forward, backward */
	FRAME_EVALUATE = 1 << 7, /* of a TAG(EVALUATE) row */
	/* Stands for a module's forward() and calls it. Of a row only: the frame is FRAME_LIBRARY,
	 * and not FRAME_FORWARD. */
	FRAME_WRAPPER = 1 << 8,
};

/* A configuration value that code implies: SIGNATURE rows. */
struct signature {
	const char *key, *value, *file, *function;
};
extern const struct signature signatures[];
extern const size_t signature_count; /* at most 64: signatures are bits of tables.signatures */

/* The meaning of all frames of a stack together. */
struct stack_info {
	uint32_t flags;       /* enum stack_flag, and enum block_hint << STACK_HINT_SHIFT */
	uint32_t line;        /* of the frame that gave the hint */
	uint32_t caller_hash; /* of the frames outside of the model, or of the optimizer: their
			       * calls from one stack are alike */
	stack_tags tags;      /* bits of enum stack_tag */
	uint64_t model_hash;  /* of the frames inside of the model; 0: none is */
	uint8_t activity[4];  /* enum activity, for each combination of enum thread_flag */
};

#define STACK_HINT_SHIFT 24

static inline enum block_hint stack_hint(uint32_t flags)
{
	return (enum block_hint)(flags >> STACK_HINT_SHIFT);
}

static inline int hint_is_cache(enum block_hint hint)
{
	return hint == HINT_KV_CACHE || hint == HINT_STATIC_CACHE;
}

/* The value "*" of a SIGNATURE row: the folder that most frames of the trace have at the last * of
 * the row's pattern; empty: no frame matches it. It points into the tables. */
struct str signature_folder(const struct tables *t, const struct signature *s);

/* Matches the frames of a trace: writes stack_info, frame_kinds and signatures of the tables. */
void frames_attribute(struct tables *t);

static inline int frame_is(const struct tables *t, uint32_t frame, enum frame_kind kind)
{
	return (t->frame_kinds[frame < t->frame_count ? frame : 0] & kind) != 0;
}

#endif
