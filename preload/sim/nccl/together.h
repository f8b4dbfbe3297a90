/* Ranks that run at once: their numbers, and their waits, which the store is informed of. */
#ifndef CUDASIM_NCCL_TOGETHER_H
#define CUDASIM_NCCL_TOGETHER_H

#include "nccl/comm.h"

/* Fills in which ranks of it run, among others that do not. */
int together_members(struct comm *comm);
/* Tells the store that a thread waits for another rank, and each time that it has looked again. */
void together_waits(bool begins);
void together_looked(void);
/* The text about that wait if it takes too long. */
void together_where(const char *text);

#endif
