/*
 * The Python stack of the calling thread, read without the GIL: the thread is inside a call, so its
 * frames cannot move. CPython 3.9 and later, free-threaded builds too. The layout is checked on the
 * first stack, with reads that cannot fault; if the layout is not as expected, no stacks are
 * recorded and the trace has a note with the reason.
 */
#ifndef PRELOAD_PYSTACK_H
#define PRELOAD_PYSTACK_H

#include <stdint.h>

/* The stack of MODULE (an id of the tables, 0: unknown) and the calling thread's Python stack. */
uint32_t pystack_current(uint32_t module);

/* Where the calling thread's innermost Python frames are, to be compared with a later place.
 * `frame` is NULL if the thread has none. */
struct pystack_place {
	const void *frame;
	uint64_t instructions; /* of that frame and of those around it, mixed */
};
struct pystack_place pystack_place(void);
/* Is the thread still in the call that the place's frame made then? */
int pystack_is_within(const struct pystack_place *place);

/* Does the name of one of the calling thread's innermost Python functions end so? From Python 3.11
 * on the name of its class comes first. */
int pystack_runs(const char *name);

/* The stack of MODULE alone. */
uint32_t pystack_module_stack(uint32_t module);

/* For a forked child: searches for the interpreter again. */
void pystack_forget(void);

#endif
