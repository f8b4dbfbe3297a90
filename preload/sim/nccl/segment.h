/* Shared memory that the ranks of a machine find by name. */
#ifndef CUDASIM_SEGMENT_H
#define CUDASIM_SEGMENT_H

#include <stddef.h>

/* Memory of `size` bytes, the first `fixed` of them with space, that is the same for all ranks
 * that name it: *file, and for the rank that made it *listener, over which it is handed out
 * until that is closed. Else errno. */
int segment_open(const char *name, size_t size, size_t fixed, int *file, int *listener);
/* Gives it to all ranks that have asked; never waits. */
void segment_hand_out(int file, int listener);

#endif
