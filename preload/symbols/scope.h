/*
 * If more than one loaded object defines a hooked function (two NCCLs, PyTorch's CUDA runtime
 * beside the system's): which of them the loader would have bound a caller to.
 */
#ifndef PRELOAD_SCOPE_H
#define PRELOAD_SCOPE_H

struct scope_choice {
	unsigned definitions; /* behind us */
	void *first;          /* of them */
	void *chosen;         /* the caller's; NULL: it has none of its own */
};

struct scope_choice scope_choose(const char *symbol, const void *caller);

/* In a forked child: the thread that held the lock does not exist. */
void scope_forget(void);

#endif
