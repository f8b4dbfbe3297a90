/*
 * Which parameters PyTorch's optimizers have, and which nodes of the autograd graph lead to one. A
 * graph that leads to none is kept for gradients that nobody uses.
 */
#ifndef PRELOAD_OPTIMIZED_H
#define PRELOAD_OPTIMIZED_H

#include <stdint.h>

/* The calling thread has made a node of that number. `is_torchs`: of an operation of PyTorch's own,
 * which asks for its inputs after that. */
void optimized_node(uint64_t number, int is_torchs);

/* Does the thread's latest node need gradients, and lead to no parameter that an optimizer has? 0
 * where that is not known. */
int optimized_is_needless(void);

/* A library was unloaded: finds PyTorch's own functions again. */
void optimized_forget(void);

#endif
