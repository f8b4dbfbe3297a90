/* Whether the operations of each thread make nodes of the autograd graph, as the preload recorded
 * it (MT_GRAD_MODE): under torch.no_grad() they make none. */
#ifndef MEMTRACE_GRAD_MODES_H
#define MEMTRACE_GRAD_MODES_H

#include <memtrace/trace.h>
#include <stddef.h>

/* NODES_NEEDLESS: they lead to no parameter that an optimizer of PyTorch has. */
enum made_nodes { NODES_UNKNOWN, NODES_NONE, NODES_MADE, NODES_NEEDLESS };

/* Do they make nodes of any kind? */
static inline int are_made(enum made_nodes made)
{
	return made == NODES_MADE || made == NODES_NEEDLESS;
}

/* Both lists are of numbers of a byte: `threads` has enum made_nodes of each thread, now; `stacks`
 * bits 1 << enum made_nodes of the blocks of each stack that were noted. */
struct grad_modes {
	uint8_t *threads;
	uint8_t *stacks;
};

void grad_modes_init(struct grad_modes *g, size_t stacks);
void grad_modes_release(struct grad_modes *g);

/* An event MT_GRAD_MODE. */
void grad_modes_event(struct grad_modes *g, const struct mt_record *r);

/* Events are missing here. */
void grad_modes_gap(struct grad_modes *g);

#endif
