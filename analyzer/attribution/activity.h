/* The activity of a job at an event, from the event's own thread and stack. */
#ifndef MEMTRACE_ACTIVITY_H
#define MEMTRACE_ACTIVITY_H

#include <stdint.h>

enum thread_flag {
	THREAD_AUTOGRAD = 1, /* of PyTorch's autograd engine: it runs the backward pass */
	THREAD_MAIN = 2,     /* runs the training loop */
};

enum activity {
	ACTIVITY_UNKNOWN, /* no stack: the activity before goes on */
	ACTIVITY_MAIN,    /* the job's own code: set-up, inputs, everything between the others */
	ACTIVITY_MODEL,   /* a forward pass */
	ACTIVITY_EVALUATION,
	ACTIVITY_BACKWARD,
	ACTIVITY_RECOMPUTE,
	ACTIVITY_OPTIMIZER,
	ACTIVITY_ZERO_GRAD,
	ACTIVITY_SAVING,
	ACTIVITY_LOADING,
	ACTIVITY_GAP, /* the trace has no events of this time */
};

static inline int activity_is_forward(uint8_t a)
{
	return a == ACTIVITY_MODEL;
}

/* A model is called, in training or not. */
static inline int activity_is_call(uint8_t a)
{
	return a == ACTIVITY_MODEL || a == ACTIVITY_EVALUATION;
}

static inline int activity_is_backward(uint8_t a)
{
	return a == ACTIVITY_BACKWARD || a == ACTIVITY_RECOMPUTE;
}

/* `thread`: enum thread_flag; `flags`: enum stack_flag. */
enum activity activity_of(unsigned thread, uint32_t flags);

#endif
