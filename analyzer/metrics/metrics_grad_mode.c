#include "metrics/metrics_grad_mode.h"

#include <stdlib.h>
#include <string.h>

void metrics_grad_modes_init(struct grad_modes *g, size_t stacks)
{
	g->stacks = xcalloc(stacks + 1, 1);
	g->threads = xcalloc(MT_NO_THREAD + 1, 1);
}

void metrics_grad_modes_release(struct grad_modes *g)
{
	free(g->threads);
	free(g->stacks);
}

/* Where gradients are enabled and no node was ever seen, this build of PyTorch may make its nodes
 * unseen. */
void metrics_note_grad_mode(struct grad_modes *g, const struct mt_record *r)
{
	enum made_nodes made = NODES_UNKNOWN;

	g->seen |= r->bytes == 1;
	if (r->bytes == 1)
		made = NODES_MADE;
	else if (!r->bytes && (!r->address || g->seen))
		made = NODES_NONE;
	g->threads[r->thread] = (uint8_t)made;
}

void metrics_grad_modes_gap(struct grad_modes *g)
{
	memset(g->threads, NODES_UNKNOWN, MT_NO_THREAD + 1);
}
