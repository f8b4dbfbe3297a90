#include "metrics/metrics_live.h"

#include "metrics/metrics_sizes.h"

#define RISES 2 /* fewer rising sizes in a row may be chance */

static void copy_passes(const struct device_pass *d, const struct live_passes *p,
			size_t stack_count)
{
	struct metrics *m = d->m;

	m->passes = p->count;
	m->pass_newest = p->newest;
	m->passes_waiting = p->waiting_count;
	m->waiting = p->waiting;
	m->passes_kept = p->kept_count;
	m->kept = p->kept;
	m->kept_stacks = p->kept_stacks;
	m->again = p->again;
	m->again_is_new =
		p->again && p->again_stack < stack_count && !d->stacks[p->again_stack].before;
}

static void copy_duplicates(struct metrics *m, const struct duplicates *p)
{
	m->second_states = p->states;
	m->param_copies = p->copies;
	m->param_copies_blocks = p->copies_count;
	m->unstepped = p->unstepped;
	m->data = p->data;
	m->data_blocks = p->data_blocks;
}

/* Do the blocks grow, step by step, or one by one outside of steps, and replace each other? A model
 * whose input varies allocates growing blocks by chance. `more`: the request is one more of them.
 */
static int is_growing(const struct stack_levels *l, int is_model, uint32_t more)
{
	uint32_t least = is_model ? 2 * RISES : RISES;

	if (l->rises >= least && l->rises >= (l->steps - 1) / 5 * 4) {
		bytes twice = (bytes)(l->blocks / l->steps) * 2; /* the blocks of two steps */

		return (l->live + twice - 1) / twice <= l->tallest;
	}
	return l->block_rises + more >= 2 * least && l->block_rises >= (l->blocks - 1) / 5 * 4 &&
	       l->live <= 2 * l->tallest;
}

/* A tensor to which a job adds with torch.cat: the block of its stack is larger than the one
 * before, which is freed then. */
static void find_growing(const struct metrics_pass *p, const struct device_pass *d)
{
	struct metrics *m = d->m;

	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		const struct stack_levels *l = &d->stacks[i];
		bytes request = d->failure && d->failure->stack == i ? d->failure->requested : 0;
		bytes last = request > l->tallest ? request : l->tallest;

		if (!is_growing(l, (p->tags[i] & TAGGED(MODEL)) != 0, request > l->tallest) ||
		    last < 2 * l->first || bytes_add(l->live, request) <= m->growing ||
		    p->tags[i] & (TAGGED(OPTIMIZER) | TAGGED(KV_CACHE)))
			continue;
		m->growing = bytes_add(l->live, request);
		m->growing_times = l->rises > l->block_rises ? l->rises : l->block_rises;
		m->growing_first = l->first;
		m->growing_last = last;
	}
}

int metrics_may_be_huge(const struct device_pass *d, uint64_t tags, bytes size)
{
	return !metrics_is_logits(d, tags, size) && !metrics_is_score(d, tags, 0, size) &&
	       !(tags & (TAGGED(OPTIMIZER) | TAGGED(LOAD) | TAGGED(SAVE) | TAGGED(CLIP) |
			 TAGGED(BUCKET) | TAGGED(FSDP_GATHER) | TAGGED(FSDP_GRADIENT) |
			 TAGGED(ZERO) | TAGGED(MEGATRON_FSDP) | TAGGED(COMPILE)));
}

/* Is it a block whose size one line of code decides? Without frames, a block of the backward pass
 * is. */
static int is_candidate(const struct metrics_pass *p, const struct device_pass *d, uint32_t stack,
			bytes size, unsigned category)
{
	uint32_t flags = tables_stack_flags(p->tables, stack);
	enum block_hint hint = stack_hint(flags);

	return hint != HINT_COMMUNICATION && hint != HINT_BUCKETS &&
	       (flags & STACK_FRAMES || category == CATEGORY_TEMPORARIES) &&
	       (category == CATEGORY_ACTIVATIONS || category == CATEGORY_TEMPORARIES ||
		category == CATEGORY_OTHER || category == CATEGORY_INPUTS) &&
	       metrics_may_be_huge(d, p->tags[stack], size);
}

void metrics_find_huge(struct device_pass *d, const struct metrics_pass *p,
		       const struct snapshot *live)
{
	struct metrics *m = d->m;
	const struct failure *f = d->failure && !d->failure->from_runtime ? d->failure : NULL;
	uint32_t stack = f && f->stack < p->tables->stack_count ? f->stack : MT_NO_STACK;
	bytes request = f && is_candidate(p, d, stack, f->requested, CATEGORY_TEMPORARIES)
				? f->requested
				: 0;

	m->huge = request;
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (is_candidate(p, d, g->stack, g->largest, g->category) && g->largest > m->huge)
			m->huge = g->largest;
	}
	if (request && request >= m->huge / 4) {
		m->huge_sum = request;
		m->huge_blocks = 1;
	}
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->largest < m->huge / 4 ||
		    !is_candidate(p, d, g->stack, g->largest, g->category))
			continue;
		add(&m->huge_sum, g->bytes);
		m->huge_blocks += (int64_t)g->blocks;
	}
	d->huge = m->huge;
}

void metrics_what_is_live(const struct metrics_pass *p, struct device_pass *d,
			  const struct snapshot *live)
{
	copy_passes(d, &live->passes, p->tables->stack_count);
	copy_duplicates(d->m, &live->duplicates);
	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		d->m->model_stacks += p->tags[i] & TAGGED(MODEL) && d->stacks[i].last_step &&
				      d->stacks[i].last_step + 1 >= d->step + 1;
	find_growing(p, d);
}
