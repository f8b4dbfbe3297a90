/* The groups of the thread, and the memory that NCCL takes when communicators are used. */
#ifndef PRELOAD_NCCL_USE_H
#define PRELOAD_NCCL_USE_H

#include <stdint.h>

/* ncclGroupStart() was called. */
void nccl_group_start(int has_started);
/* ncclGroupEnd() was called. */
void nccl_group_end(void);
/* Is the thread inside a group? Its calls then only begin: a communicator created inside a group
 * exists only after it. */
int nccl_is_in_group(void);
/* BYTES came from the creation of a communicator in the group, not from a use. */
void nccl_group_except(uint64_t bytes);

#endif
