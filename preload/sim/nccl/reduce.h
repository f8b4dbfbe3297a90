/* The arithmetic of small reductions. */
#ifndef CUDASIM_REDUCE_H
#define CUDASIM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

size_t reduce_size(int type);
bool reduce_known(int type, int operation);
/* into = into (operation) from, element by element. */
void reduce_into(void *into, const void *from, size_t count, int type, int operation);
/* Each element times the scalar, which has the same type. */
void reduce_scale(void *data, size_t count, int type, const void *scalar);
/* Whole numbers are divided towards zero. */
void reduce_divide(void *data, size_t count, int type, int divisor);

#endif
