/* One process's devices: the current one, and the bytes that each has given. */
#ifndef CUDASIM_DEVICE_H
#define CUDASIM_DEVICE_H

#include "device/common.h"

int sim_ready(void); /* SIM_OK if the settings are valid, else SIM_NOT_INITIALIZED */
int device_current(void);
int device_select(int device);
int device_use(int device); /* creates the context, and charges it, at the first use */
int device_use_current(void);
bool device_active(int device);
int device_charge(int device, uint64_t bytes);
void device_refund(int device, uint64_t bytes);
void device_memory(int device, uint64_t *available, uint64_t *total);
EXPORT void cudasim_memory(int device, uint64_t *used, uint64_t *total);
int cuda_major(void);   /* of the libcudart that the process loaded */
int cuda_version(void); /* as cudaRuntimeGetVersion() returns it */
void *real_symbol(const char *const *libraries, const char *symbol);

#endif
