/* The wrappers of hooks.def, and what all of them share. */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

/* Forgets pointers, modules and real functions; in a forked child. */
void hooks_forget(void);

#endif
