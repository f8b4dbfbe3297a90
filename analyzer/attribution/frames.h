/* What the frames of a stack say, by frames.def. */
#ifndef MEMTRACE_FRAMES_H
#define MEMTRACE_FRAMES_H

#include <assert.h>
#include <stdint.h>

struct tables;

enum stack_flag {
	STACK_PYTORCH = 1,       /* the caller is PyTorch's allocator, libc10_cuda.so */
	STACK_FRAMES = 1 << 1,   /* there is a Python stack */
	STACK_MODULE = 1 << 2,   /* a module is called */
	STACK_LOSS = 1 << 3,     /* a loss is computed */
	STACK_NO_GRAD = 1 << 4,  /* outside of any module, gradients were turned off */
	STACK_BACKWARD = 1 << 5, /* backward() is called */
	STACK_RECOMPUTE = 1 << 6,
	STACK_OPTIMIZER = 1 << 7,
	STACK_CLIPPING = 1 << 8,
	STACK_ZERO_GRAD = 1 << 9,
	STACK_SAVING = 1 << 10,
	STACK_LOADING = 1 << 11,
	STACK_EVALUATION = 1 << 12, /* outside of any module too */
	STACK_INIT = 1 << 13,     /* an object is made */
	STACK_PIPELINE = 1 << 14, /* a pipeline's schedule runs */
};

/* What the block is, by its stack alone. */
enum makes {
	MAKES_NOTHING,
	MAKES_PARAMETERS,
	MAKES_BUFFERS,
	MAKES_STATES,
	MAKES_INPUTS,
	MAKES_WORKSPACES,
	MAKES_COMMUNICATION,
	MAKES_BUCKETS, /* communication, or where the gradients live */
	MAKES_REDUCED, /* communication, or a gradient if it outlives the backward pass */
	MAKES_RECEIVED, /* of a pipeline's other stages */
	MAKES_GRADIENTS,
	/* These become one of the above by the order of their lines, see classify.c. */
	MAKES_APPLY,
	MAKES_NORM,
	MAKES_PARAM_AND_GRAD,
	MAKES_IPG_AND_GRADIENTS,
};

/* What the rules of diagnosis ask. */
enum mark {
#define MARK(id, meaning) MARK_##id,
#include "attribution/tags.def"
#undef MARK
	MARKS
};
static_assert(MARKS <= 64, "a bit each");
#define MARKED(id) (UINT64_C(1) << MARK_##id)

#define STACK_HINT_SHIFT 24

static inline enum makes stack_hint(uint32_t flags)
{
	return (enum makes)(flags >> STACK_HINT_SHIFT);
}

/* What is asked about a stack for every event, found once. */
struct stack_info {
	uint32_t flags;      /* enum stack_flag, enum makes << STACK_HINT_SHIFT */
	uint32_t line;       /* of the frame that said what it makes */
	uint32_t caller;     /* tells the calls of a model apart: a hash of the frames outside of it */
	uint64_t marks;      /* a bit each of enum mark */
	uint64_t inside;     /* the same of the frames inside, 0 outside of any model */
	uint8_t activity[4]; /* enum activity, by enum thread_flag */
};

/* One for each stack of the tables; the caller frees them. */
struct stack_info *stacks_read(const struct tables *t);

#endif
