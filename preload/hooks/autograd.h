/*
 * Which node of PyTorch's autograd graph allocates, and which line of the forward pass made the
 * node. The backward pass runs on threads without a Python stack; its blocks get their names from
 * this.
 */
#ifndef PRELOAD_AUTOGRAD_H
#define PRELOAD_AUTOGRAD_H

#include <stdint.h>

/*
 * To be called before a block of MEMTRACE_STACK_MIN or more is recorded, on the thread that
 * allocates it, with the block's stack: notes which node of the forward pass the block came with,
 * and records the node of the backward pass that the thread runs, if it is another one than at the
 * last call.
 */
void autograd_note(unsigned device, uint32_t stack);

/* The same before a request that failed is recorded. */
void autograd_failed(unsigned device);

/* A library was unloaded: finds PyTorch's own functions again. */
void autograd_forget(void);

#endif
