/* What a job was doing when an event happened, as far as the event's own thread and stack tell. */
#ifndef MEMTRACE_ACTIVITY_H
#define MEMTRACE_ACTIVITY_H

#include <stdint.h>

enum activity {
	ACTIVITY_UNKNOWN, /* as before: there is no stack */
	ACTIVITY_MAIN,    /* the job's own code: setting up, inputs, and what is between the rest */
	ACTIVITY_MODEL,   /* forward */
	ACTIVITY_EVALUATION,
	ACTIVITY_BACKWARD,
	ACTIVITY_RECOMPUTE,
	ACTIVITY_OPTIMIZER,
	ACTIVITY_ZERO_GRAD,
	ACTIVITY_SAVING,
	ACTIVITY_LOADING,
	ACTIVITY_GAP, /* what happened is not in the trace */
};

/* Of the flags of a thread and of a stack, see tables.h. */
enum activity activity_of(unsigned thread, uint32_t stack);

#endif
