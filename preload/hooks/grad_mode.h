/*
 * Whether the operations of a thread make nodes of PyTorch's autograd graph: the blocks that they
 * allocate then live until the backward pass. Under torch.no_grad() they make none.
 */
#ifndef PRELOAD_GRAD_MODE_H
#define PRELOAD_GRAD_MODE_H

#include "python/pystack.h"

/* A torch.autograd.Function, or another library's function with a backward pass of its own, has
 * made its node. */
void grad_mode_function(void);

/* Of the operation that makes a block: it is PyTorch's own and has just made a node, which leads to
 * no parameter that an optimizer has, or may lead to one. */
enum node_of_block { NO_NODE, NODE, NEEDLESS_NODE };

/*
 * To be called before a block of MEMTRACE_STACK_MIN or more is recorded, or a request that failed,
 * on the thread that makes it: records what its operations do, if that has changed. `latest`: where
 * it made its latest node, if that is of an operation of PyTorch's own and no block of it is known
 * yet; otherwise `frame` is NULL.
 */
void grad_mode_note(unsigned device, enum node_of_block node, const struct pystack_place *latest);

/* The process has two copies of PyTorch: nothing is known any more. */
void grad_mode_give_up(void);

/* A library was unloaded: finds PyTorch's own function again. */
void grad_mode_forget(void);

#endif
