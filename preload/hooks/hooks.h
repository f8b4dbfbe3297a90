/* The table that answers look-ups: the rows of hooks.def that have a wrapper. */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

struct hook {
	const char *symbol; /* a byte 1 stands before it: where dlsym() of the name must fail, that
			       one is looked up, which no object exports */
	void *wrapper;
	void **real;
	int since; /* the CUDA version whose interface this is; 0: no driver function */
};

extern const struct hook hooks[] __attribute__((visibility("hidden")));
extern const unsigned hooks_count __attribute__((visibility("hidden")));

#endif
