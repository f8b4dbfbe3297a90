/* Whether the operations of each thread make nodes of the autograd graph, as the job recorded it
 * (MT_GRAD_MODE): under torch.no_grad(), or of parameters that need no gradients, they make none.
 */
#ifndef MEMTRACE_GRAD_MODES_H
#define MEMTRACE_GRAD_MODES_H

#include <memtrace/trace.h>
#include <stddef.h>

enum made_nodes { NODES_UNKNOWN, NODES_NONE, NODES_MADE };

struct grad_modes {
	uint8_t *threads; /* enum made_nodes: of each thread, now */
	uint8_t *
		stacks; /* bits 1 << enum made_nodes: of the blocks of each stack that were noted */
	int seen;       /* some thread made nodes */
};

void grad_modes_init(struct grad_modes *g, size_t stacks);
void grad_modes_release(struct grad_modes *g);

/* An event MT_GRAD_MODE. */
void grad_modes_event(struct grad_modes *g, const struct mt_record *r);

/* Events are missing here. */
void grad_modes_gap(struct grad_modes *g);

#endif
