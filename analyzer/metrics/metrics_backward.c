#include "metrics/metrics_backward.h"

/* Adds up the blocks that autograd's threads allocated and that are no gradients. Blocks with
 * frames are recomputed ones. */
static void find_kept(const struct tables *t, struct metrics *m, const struct snapshot *live)
{
	for (size_t i = 0; i < live->count && m->in_backward; i++) {
		const struct block_group *g = &live->groups[i];

		if ((g->category != CATEGORY_TEMPORARIES && g->category != CATEGORY_ACTIVATIONS) ||
		    !(t->thread_flags[g->thread] & THREAD_AUTOGRAD) ||
		    tables_stack_flags(t, g->stack) & STACK_FRAMES)
			continue;
		add(&m->backward_kept, g->bytes);
		m->backward_kept_blocks += (int64_t)g->blocks;
	}
}

/* Divides the blocks that backward passes of earlier steps have left: as many bytes as the
 * gradients have are gradients, and the rest is a graph that something keeps. */
static void divide_old(const struct tables *t, struct metrics *m, const struct snapshot *live,
		       bytes old, uint32_t blocks)
{
	bytes graph = old - m->gradients;

	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].category == CATEGORY_WORKSPACES &&
		    t->thread_flags[live->groups[i].thread] & THREAD_AUTOGRAD)
			add(&graph, -live->groups[i].bytes);
	m->old_gradients = smaller_of(m->old_gradients, m->gradients);
	if (graph <= 0)
		return;
	add(&m->left, graph);
	m->left_blocks += blocks;
	m->left_steps = larger_of(m->left_steps, 1);
}

void metrics_find_backward(const struct metrics_pass *p, struct device_pass *d,
			   const struct snapshot *live, bytes old, uint32_t old_blocks)
{
	find_kept(p->tables, d->m, live);
	divide_old(p->tables, d->m, live, old, old_blocks);
}
