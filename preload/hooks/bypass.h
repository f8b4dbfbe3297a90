/* Libraries whose calls do not reach the wrappers. */
#ifndef PRELOAD_BYPASS_H
#define PRELOAD_BYPASS_H

/* Writes a note with their names into the tables, once, if there are any. Slow; for the helper
 * thread. */
void bypass_describe(void);

/* In a forked child. */
void bypass_forget(void);

#endif
