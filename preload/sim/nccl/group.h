/* Groups of NCCL calls: ncclGroupStart() to ncclGroupEnd(), which may be nested. */
#ifndef CUDASIM_GROUP_H
#define CUDASIM_GROUP_H

#include <stdbool.h>

/* Is the thread inside a group? */
bool nccl_in_group(void);
void group_enter(void);
/* Returns how many groups the thread is still inside of; -1: it was in none. */
int group_leave(void);

#endif
