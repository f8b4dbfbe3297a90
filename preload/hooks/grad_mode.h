/*
 * Whether the operations of a thread make nodes of PyTorch's autograd graph: the blocks that they
 * allocate then live until the backward pass. A forward pass under torch.no_grad(), or of
 * parameters that need no gradients, makes none.
 */
#ifndef PRELOAD_GRAD_MODE_H
#define PRELOAD_GRAD_MODE_H

/* The calling thread has made a node. `is_own`: of a function with a backward pass of its own
 * (torch.autograd.Function), not of an operation of PyTorch. */
void grad_mode_node(int is_own);

/* To be called before a block of MEMTRACE_STACK_MIN or more is recorded, or a request that failed,
 * on the thread that makes it: records what changed since the last call. */
void grad_mode_note(unsigned device);

/* A library was unloaded: finds PyTorch's own function again. */
void grad_mode_forget(void);

#endif
