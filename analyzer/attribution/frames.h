/* What the frames of a place say, by places.def. */
#ifndef MEMTRACE_PLACES_H
#define MEMTRACE_PLACES_H

#include <assert.h>
#include <stdint.h>

struct tables;

enum place_flag {
	PLACE_PYTORCH = 1,       /* the caller is PyTorch's allocator, libc10_cuda.so */
	PLACE_FRAMES = 1 << 1,   /* there is a Python stack */
	PLACE_MODULE = 1 << 2,   /* a module is called */
	PLACE_LOSS = 1 << 3,     /* a loss is computed */
	PLACE_NO_GRAD = 1 << 4,  /* outside of any module, gradients were turned off */
	PLACE_BACKWARD = 1 << 5, /* backward() is called */
	PLACE_RECOMPUTE = 1 << 6,
	PLACE_OPTIMIZER = 1 << 7,
	PLACE_CLIPPING = 1 << 8,
	PLACE_ZERO_GRAD = 1 << 9,
	PLACE_SAVING = 1 << 10,
	PLACE_LOADING = 1 << 11,
	PLACE_EVALUATION = 1 << 12, /* outside of any module too */
	PLACE_INIT = 1 << 13,     /* an object is made */
	PLACE_PIPELINE = 1 << 14, /* a pipeline's schedule runs */
};

/* What the block is, by its place alone. */
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

#define PLACE_MAKES_SHIFT 24

static inline enum makes place_makes(uint32_t flags)
{
	return (enum makes)(flags >> PLACE_MAKES_SHIFT);
}

/* What is asked about a place for every event, found once. */
struct place_info {
	uint32_t flags;      /* enum place_flag, enum makes << PLACE_MAKES_SHIFT */
	uint32_t line;       /* of the frame that said what it makes */
	uint32_t caller;     /* tells the calls of a model apart: a hash of the frames outside of it */
	uint64_t marks;      /* a bit each of enum mark */
	uint64_t inside;     /* the same of the frames inside, 0 outside of any model */
	uint8_t activity[4]; /* enum activity, by enum thread_flag */
};

/* One for each place of the tables; the caller frees them. */
struct place_info *places_read(const struct tables *t);

#endif
