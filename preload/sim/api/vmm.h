/* Virtual memory management (cuMemCreate, cuMemMap). */
#ifndef CUDASIM_VMM_H
#define CUDASIM_VMM_H

#include <stdint.h>

/* The device that backs a mapped address; -1: none. */
int vmm_device(uint64_t address);

#endif
