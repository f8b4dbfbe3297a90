/* Page-locked host memory. The functions return error numbers (device/common.h). */
#ifndef CUDASIM_HOST_H
#define CUDASIM_HOST_H

#include <stdbool.h>
#include <stdint.h>

int host_alloc(uint64_t size, unsigned flags, void **pointer);
int host_free(void *pointer);
int host_register(void *pointer, uint64_t size);
int host_unregister(void *pointer);
bool host_find(const void *pointer);

#endif
