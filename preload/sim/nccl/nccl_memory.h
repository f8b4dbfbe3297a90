/* Device memory that NCCL takes for a communicator. */
#ifndef CUDASIM_NCCL_MEMORY_H
#define CUDASIM_NCCL_MEMORY_H

#include "nccl/comm.h"

/* Each of these allocates the device memory that NCCL allocates for the first such use of the
 * communicator. They return NCCL's status. */
int nccl_memory_created(struct comm *comm);
/* nvls: bytes of the collective that NVLS can carry. */
int nccl_memory_collective(struct comm *comm, const char *call, uint64_t nvls);
int nccl_memory_message(struct comm *comm, const char *call, int peer, bool receive);
int nccl_memory_all_to_all(struct comm *comm, const char *call, bool send, bool receive);
/* Frees the buffers of the communicator. The memory of NCCL's kernels stays with the process. */
void nccl_memory_released(struct comm *comm);

#endif
