/* Signals that would end this process are only noted while ranks run. The ranks are ended and
 * shared memory and temporary files are removed first; then the signal has its usual effect. */
#ifndef MEMTRACE_SIGNALS_H
#define MEMTRACE_SIGNALS_H

void signals_catch(void);
/* The signal that arrived; 0: none. */
int signals_caught(void);
/* Restores the handlers and raises the signal that arrived; then it may not return. */
void signals_release(void);

#endif
