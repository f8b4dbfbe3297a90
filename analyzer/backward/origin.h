/*
 * An origin: the place in a forward pass to which a block of the backward pass belongs. If several
 * places are possible, it is the common part of their stacks: the outermost frames, and of the
 * next frame the function with the lines between which the place lies.
 */
#ifndef MEMTRACE_ORIGIN_H
#define MEMTRACE_ORIGIN_H

#include "trace/tables.h"
#include "util/buf.h"

struct origin {
	uint32_t node;                  /* without a stack: the string of an autograd node's name */
	uint32_t stack;                 /* of a block of the forward pass; MT_NO_STACK: not known */
	uint32_t frames;                /* its outermost frames that are certain */
	uint32_t first_line, last_line; /* of the next frame; 0: that one is not certain */
	int is_unclear; /* without a stack: the nodes around it tell no line, and no order does */
};

/* Adds a possible place to an origin, which begins as { 0 }. */
void origin_add(struct origin *o, const struct tables *t, uint32_t stack);

/* The line of a stack's frame behind the certain ones; 0 if the origin has no such lines. */
uint32_t origin_next_line(const struct origin *o, const struct tables *t, uint32_t stack);

/* The frames that are certain, the one with lines included. */
static inline uint32_t origin_length(const struct origin *o)
{
	return o->frames + (o->first_line != 0);
}

/* Does it say more than the line from which the training loop calls the model? */
int origin_is_useful(const struct origin *o, const struct tables *t);

/* The same for origins that read alike. */
uint64_t origin_hash(const struct origin *o, const struct tables *t);

/* Without a stack: adds the name of the autograd node that is known instead. Returns 0 if none is.
 */
int origin_add_node(const struct origin *o, const struct tables *t, struct buf *b);

/* "function  file:line" or "function  file:line-line", as stack_add_label() writes it. */
void origin_add_label(const struct origin *o, const struct tables *t, struct buf *b);

#endif
