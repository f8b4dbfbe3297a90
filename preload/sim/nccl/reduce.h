/* The arithmetic of small reductions. */
#ifndef CUDASIM_REDUCE_H
#define CUDASIM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

size_t reduce_size(int type);
bool reduce_known(int type, int operation);
/* into = into (operation) from, element by element. */
void reduce_into(void *into, const void *from, size_t count, int type, int operation);
double reduce_number(const void *element, int type);
void reduce_scale(void *data, size_t count, int type, double factor, double divisor);

#endif
