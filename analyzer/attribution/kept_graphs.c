#include "attribution/kept_graphs.h"

#define GRAPH_LINES 6  /* fewer lines may have results of several calls */
#define GRAPH_BLOCKS 3 /* of one line: two layers are at work at a time */

/* Is the block one of several that a line of a model made in an evaluation, and still has? */
static int is_one_of_several(const struct block_context *c, const struct lifetime *l)
{
	struct block_info f;

	if (l->category != CATEGORY_TEMPORARIES)
		return 0;
	f = block_info_of(c, l);
	return f.alloc_span && f.alloc_span->phase == PHASE_EVALUATION &&
	       f.alloc_flags & STACK_MODULE && !(f.alloc_flags & STACK_NO_GRAD) && !f.hint &&
	       f.siblings.blocks >= GRAPH_BLOCKS;
}

void find_kept_graphs(const struct block_context *c, struct lifetimes *l)
{
	uint32_t seen[GRAPH_LINES];
	size_t lines = 0;

	for (size_t i = 0; i < l->count && lines < GRAPH_LINES; i++) {
		size_t k = 0;

		if (!is_one_of_several(c, &l->list[i]))
			continue;
		while (k < lines && seen[k] != l->list[i].alloc.stack)
			k++;
		if (k == lines)
			seen[lines++] = l->list[i].alloc.stack;
	}
	for (size_t i = 0; i < l->count && lines == GRAPH_LINES; i++)
		if (is_one_of_several(c, &l->list[i]))
			l->list[i].category = CATEGORY_ACTIVATIONS;
}
