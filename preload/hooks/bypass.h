/* Libraries whose calls do not come to the wrappers. */
#ifndef PRELOAD_BYPASS_H
#define PRELOAD_BYPASS_H

/* Writes a note that names them, once, where there are any. Slow; the helper thread's. */
void bypass_describe(void);

/* In a forked child. */
void bypass_forget(void);

#endif
