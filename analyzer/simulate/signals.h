/* A signal that would end us is only noted while ranks run: they are ended and what lies in shared
 * memory and in temporary files is removed; then it does what it did before. */
#ifndef MEMTRACE_SIM_INTERRUPT_H
#define MEMTRACE_SIM_INTERRUPT_H

void interrupt_catch(void);
/* The signal that came; 0: none. */
int interrupt_came(void);
/* Does not return if one came that ends us. */
void interrupt_release(void);

#endif
