/* The functions of kernels.def: each computes one kind of kernel. False: it did not find the
 * arguments that it expects, and computed nothing. */
#ifndef CUDASIM_COMPUTED_H
#define CUDASIM_COMPUTED_H

#include "kernels/launch.h"

#define KERNEL(part, second, compute) bool compute(const struct launch *l);
#include "kernels/kernels.def"
#undef KERNEL

#endif
