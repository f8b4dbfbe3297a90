/* Copies and fills. Small ones move bytes; of larger ones only kernels would see the result
 * (copy.c). */
#ifndef CUDASIM_COPY_H
#define CUDASIM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/common.h"

void copy_bytes(void *to, const void *from, size_t bytes);
void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t rows);
/* Does any page of this device memory hold data? */
bool copy_used(const void *from, uint64_t bytes);
/* For kernels that Python computes (memtrace_triton.py): a copy outside of every stream. Returns 1,
 * or 0 if a GPU would have other bytes at `from`; they are copied then too. */
EXPORT int cudasim_copy(void *to, const void *from, size_t bytes);
/* A kernel has written what the device does not know; `cause` stays readable. */
EXPORT void cudasim_forget(const void *at, size_t bytes, const char *cause);
void fill_bytes(void *to, int value, size_t bytes);
/* COUNT times the lowest WIDTH bytes of VALUE. */
void fill_words(void *to, unsigned value, size_t width, size_t count);

#endif
