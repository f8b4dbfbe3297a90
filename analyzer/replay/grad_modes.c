#include "replay/grad_modes.h"

#include "util/util.h"

#include <stdlib.h>
#include <string.h>

void grad_modes_init(struct grad_modes *g, size_t stacks)
{
	g->stacks = xcalloc(stacks + 1, 1);
	g->threads = xcalloc(MT_NO_THREAD + 1, 1);
}

void grad_modes_release(struct grad_modes *g)
{
	free(g->threads);
	free(g->stacks);
}

/* Where gradients are enabled and no node was ever seen, this build of PyTorch may make its nodes
 * unseen. */
void grad_modes_event(struct grad_modes *g, const struct mt_record *r)
{
	enum made_nodes made = NODES_UNKNOWN;

	g->seen |= r->bytes == 1;
	if (r->bytes == 1)
		made = NODES_MADE;
	else if (!r->bytes && (!r->address || g->seen))
		made = NODES_NONE;
	g->threads[r->thread] = (uint8_t)made;
}

void grad_modes_gap(struct grad_modes *g)
{
	memset(g->threads, NODES_UNKNOWN, MT_NO_THREAD + 1);
}
