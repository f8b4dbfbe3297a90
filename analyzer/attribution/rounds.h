/*
 * Rounds: which backward passes of a training loop end its steps.
 *
 * A step is one round of all optimizers. If one optimizer steps, so does the loop. If several take
 * turns (a GAN's discriminator twice, then its generator), the round ends where the first of them
 * has its turn again, and one of them has one turn only: else they take turns of many steps each.
 * Turns are told apart by the lines that call the model, and by those that call the optimizer.
 *
 * An optimizer that works in place shows when it allocates its states, and not again. From then on
 * a step has as many backward passes as the first one had.
 */
#ifndef MEMTRACE_ROUNDS_H
#define MEMTRACE_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

/* One backward pass, with the forward passes before it. */
struct turn {
	uint32_t forward;     /* the line of its first forward pass, 0 if none shows */
	int in_optimizer;     /* the optimizer itself calls the model (a closure) */
	int is_inner;         /* it calls the model with weights that are none of its parameters */
	int has_backward;     /* only the last one may have none: the trace ends before */
	int shows;            /* the optimizer or zero_grad() was seen after it */
	int ends;             /* found by rounds_find(): a step ends with it */
	size_t last;          /* the last span of its backward pass and of its optimizer */
	uint32_t class_index; /* turns of the same optimizer have the same one */
};

/* The line `caller` stepped the optimizer after a turn. */
struct turn_link {
	size_t turn;
	uint32_t caller;
};

struct turns {
	struct turn *list;
	size_t count, room;
	struct turn_link *links;
	size_t link_count, link_room;
};

void turns_add(struct turns *t, const struct turn *turn);
/* To be called after the turn was added. */
void turns_link(struct turns *t, uint32_t caller);
void turns_release(struct turns *t);

/* Sets `ends` of each turn. */
void rounds_find(struct turns *t);

#endif
