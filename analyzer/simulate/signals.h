/* A signal that would end us is only noted while ranks run: they are ended and what lies in shared
 * memory and in temporary files is removed; then it does what it did before. */
#ifndef MEMTRACE_SIGNALS_H
#define MEMTRACE_SIGNALS_H

void signals_catch(void);
/* The signal that came; 0: none. */
int signals_caught(void);
/* Does not return if one came that ends us. */
void signals_release(void);

#endif
