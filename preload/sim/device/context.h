/* The memory that the driver takes of a device for a process: the table is context.def. */
#ifndef CUDASIM_CONTEXT_H
#define CUDASIM_CONTEXT_H

#include "device/gpu.h"

/* The newest CUDA that the driver serves: of the CHOICE of CUDASIM_DRIVER, or of the branch that
 * RUNTIME, the job's CUDA (12060; 0: not known), needs. */
int context_cuda(uint64_t choice, int runtime);
/* The driver's version, such as "570.148.08". */
const char *context_driver(uint64_t choice);
/* The bytes of a context on a driver of that CUDA. */
uint64_t context_bytes(const struct gpu *gpu, int cuda);

#endif
