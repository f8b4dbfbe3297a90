#include "metrics/metrics_backward.h"

#include "metrics/metrics_sizes.h"

#define FEW_ROWS 4 /* of so many */

/* Adds up the blocks that autograd's threads allocated and that are no gradients. Behind the
 * backward pass, none of them is needed; before an optimizer has shown, what looks like an
 * evaluation may take derivatives within a loss. Blocks with frames are recomputed ones. */
static void find_kept(const struct tables *t, struct metrics *m, const struct snapshot *live)
{
	int is_behind = m->in_backward || m->in_optimizer ||
			(m->in_evaluation && m->tags & TAGGED(OPTIMIZER));

	for (size_t i = 0; i < live->count && is_behind; i++) {
		const struct block_group *g = &live->groups[i];

		if ((g->category != CATEGORY_TEMPORARIES && g->category != CATEGORY_ACTIVATIONS) ||
		    !(t->thread_flags[g->thread] & THREAD_AUTOGRAD) ||
		    tables_stack_has_frames(t, g->stack))
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

/* Is the largest parameter the weight of a linear layer, which has all rows in each step? That of a
 * model that was moved to the device has another stack, and is not known. */
static int is_linear_weight(const struct metrics_pass *p, const struct snapshot *live, bytes size)
{
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->stack < p->tables->stack_count &&
		    p->tags[g->stack] & TAGGED(LINEAR_WEIGHT) && same_size(g->largest, size))
			return 1;
	}
	return 0;
}

/* The gradient of a table of which the job looks up few rows: the largest parameter's, twice as
 * large as all other gradients together. A new one may be there before the old one is gone. */
static void find_table(const struct metrics_pass *p, const struct device_pass *d,
		       const struct snapshot *live)
{
	struct metrics *m = d->m;
	bytes request = m->request_is_gradient ? m->requested : 0;
	bytes largest = larger_of(m->gradient, request);
	bytes others = m->gradients + request - largest;

	others -= request && same_size(request, m->gradient) ? largest : 0;
	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->tags[i] & TAGGED(EMBEDDING))
			m->looked_up = larger_of(m->looked_up, d->stacks[i].tallest);
	if (m->looked_up && m->looked_up <= largest / FEW_ROWS && others <= largest / 2 &&
	    same_size(largest, m->largest_parameter) && !is_linear_weight(p, live, largest))
		m->table_gradient = largest;
}

static int has_event(const struct metrics_pass *p, enum mt_parameter which)
{
	return (p->parameter_events >> which & 1) != 0;
}

/* What optimizers have, and what graphs keep that lead to none of it, by the preload's records. */
static void find_optimized(const struct metrics_pass *p, const struct device_pass *d)
{
	struct metrics *m = d->m;
	const struct failure *f = d->failure;

	m->optimizers_known =
		has_event(p, MT_PARAMETER_GIVEN) && !has_event(p, MT_PARAMETER_UNKNOWN);
	m->optimized_used = has_event(p, MT_PARAMETER_USED);
	m->optimized_replaced = has_event(p, MT_PARAMETER_REPLACED);
	m->unowned_changed = has_event(p, MT_PARAMETER_CHANGED);
	m->optimized_elsewhere = p->optimized_elsewhere;
	for (size_t i = 0; i <= p->live.mask; i++) {
		const struct mt_record *r = &p->live.slots[i];
		struct block_tag tag = tag_of(r);

		if (r->kind != MT_TENSOR_ALLOC || &p->devices[r->device] != d)
			continue;
		add(&m->optimized, tag.is_optimized ? r->bytes : 0);
		add(&m->unowned, tag.is_unowned && !tag.is_optimized ? r->bytes : 0);
		add(&m->needless, metrics_is_needless(p, tag.nodes, r->stack) ? r->bytes : 0);
	}
	if (f && metrics_is_needless(p, p->grad_modes.threads[f->when.thread], f->stack))
		add(&m->needless, f->requested);
}

void metrics_find_backward(const struct metrics_pass *p, struct device_pass *d,
			   const struct snapshot *live, bytes old, uint32_t old_blocks)
{
	find_kept(p->tables, d->m, live);
	divide_old(p->tables, d->m, live, old, old_blocks);
	find_table(p, d, live);
	find_optimized(p, d);
}

void metrics_note_parameter(struct metrics_pass *p, const struct mt_record *r)
{
	union {
		struct block_tag tag;
		uint64_t time;
	} u;
	struct mt_record block;
	int is_given = r->bytes == MT_PARAMETER_GIVEN;

	if (r->bytes < 0 || r->bytes > MT_PARAMETER_UNKNOWN)
		return;
	p->parameter_events |= 1u << r->bytes;
	p->optimized_elsewhere |= is_given && !r->address;
	if (!r->address || !live_set_take(&p->live, MT_TENSOR_ALLOC, r->address, &block))
		return;
	u.tag = tag_of(&block);
	u.tag.is_unowned |= r->bytes == MT_PARAMETER_UNOWNED;
	if (is_given || r->bytes == MT_PARAMETER_USED || r->bytes == MT_PARAMETER_REPLACED)
		u.tag.is_optimized = r->bytes != MT_PARAMETER_REPLACED;
	block.time_ns = u.time;
	live_set_add(&p->live, &block);
}
