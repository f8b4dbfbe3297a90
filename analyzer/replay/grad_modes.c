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

/* Several threads may have no id of their own. */
void grad_modes_event(struct grad_modes *g, const struct mt_record *r)
{
	enum made_nodes made = r->bytes == 0   ? NODES_NONE
			       : r->bytes == 1 ? NODES_MADE
			       : r->bytes == 3 ? NODES_NEEDLESS
					       : NODES_UNKNOWN;

	if (r->thread != MT_NO_THREAD)
		g->threads[r->thread] = (uint8_t)made;
}

void grad_modes_gap(struct grad_modes *g)
{
	memset(g->threads, NODES_UNKNOWN, MT_NO_THREAD + 1);
}
