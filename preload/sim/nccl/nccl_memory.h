/* Device memory that NCCL takes for a communicator. */
#ifndef CUDASIM_NCCL_MEMORY_H
#define CUDASIM_NCCL_MEMORY_H

#include "nccl/comm.h"

/* Takes the device memory that a use of the communicator takes the first time. */
int nccl_memory_created(struct comm *comm);
/* NVLS: the bytes that NVLS could carry. */
int nccl_memory_collective(struct comm *comm, const char *call, uint64_t nvls);
int nccl_memory_message(struct comm *comm, const char *call, int peer, bool receive);
int nccl_memory_all_to_all(struct comm *comm, const char *call, bool send, bool receive);
void nccl_memory_left(struct comm *comm);

#endif
