/* Copies and fills. Small ones move bytes; of larger ones only kernels would see the result
 * (copy.c). */
#ifndef CUDASIM_COPY_H
#define CUDASIM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void copy_bytes(void *to, const void *from, size_t bytes);
void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t rows);
/* Does any page of this device memory hold data? */
bool copy_used(const void *from, uint64_t bytes);
void fill_bytes(void *to, int value, size_t bytes);

#endif
