/* The numbers that the last launch drew: see random.c. */
#ifndef CUDASIM_RANDOM_H
#define CUDASIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* Another kernel may have written over the numbers. */
void random_forget(void);
/* Computes `count` numbers of the last draw from address `from` on; false if they are not of it. */
bool random_normals(float *numbers, const void *from, uint64_t count);

#endif
