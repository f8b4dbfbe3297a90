/* The real functions behind the wrappers. */
#ifndef PRELOAD_REAL_H
#define PRELOAD_REAL_H

/* One slot for each wrapped function, by its exported name (entries.h); NULL: not found yet. */
extern struct real_functions real_functions __attribute__((visibility("hidden")));

/* The function of SLOT, one of real_functions', that CALLER means: found among the loaded
 * objects and kept. NULL: not found. */
void *real_find(void *slot, const char *symbol, const void *caller);

/* The function that is found first, for any caller. */
void *real_default(void *slot, const char *symbol);

/* Call this in a forked child: the thread that held the lock does not exist there. */
void real_forget(void);

/* A library was unloaded: every caller's function is chosen anew. */
void real_forget_choices(void);

#endif
