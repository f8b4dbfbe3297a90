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
	static const uint8_t made[] = { [MT_NODES_NONE] = NODES_NONE,
					[MT_NODES_MADE] = NODES_MADE,
					[MT_NODES_UNKNOWN] = NODES_UNKNOWN,
					[MT_NODES_NEEDLESS] = NODES_NEEDLESS };
	int is_known = r->bytes >= 0 && r->bytes < (int64_t)ARRAY_SIZE(made);

	if (r->thread != MT_NO_THREAD)
		g->threads[r->thread] = is_known ? made[r->bytes] : NODES_UNKNOWN;
}

void grad_modes_gap(struct grad_modes *g)
{
	memset(g->threads, NODES_UNKNOWN, MT_NO_THREAD + 1);
}
