/*
 * If more than one loaded object defines a hooked function (two NCCLs, the CUDA runtimes of PyTorch
 * and of the system), finds the one to which the loader would have bound a caller.
 */
#ifndef PRELOAD_SCOPE_H
#define PRELOAD_SCOPE_H

struct scope_choice {
	unsigned definitions; /* number of definitions after this library */
	void *first;          /* the first definition */
	void *chosen;         /* the caller's definition; NULL: it has none of its own */
};

struct scope_choice scope_choose(const char *symbol, const void *caller);

/* For a forked child: releases the lock, whose holder does not exist there. */
void scope_forget(void);

#endif
