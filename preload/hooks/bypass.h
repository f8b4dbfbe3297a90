/* Libraries whose calls do not reach the wrappers. */
#ifndef PRELOAD_BYPASS_H
#define PRELOAD_BYPASS_H

/* Writes a note with the names of such libraries into the tables, once, if any exist. Slow; for
 * the helper thread. */
void bypass_describe(void);

/* Call this in a forked child. */
void bypass_forget(void);

#endif
