#include "metrics/metrics_live.h"

#include "metrics/metrics_calls.h"
#include "metrics/metrics_doubled.h"
#include "metrics/metrics_head.h"
#include "metrics/metrics_models.h"
#include "metrics/metrics_own.h"
#include "metrics/metrics_replaced.h"
#include "metrics/metrics_sizes.h"

#include <stdlib.h>

#define MOST_FUNCTIONS 16
#define MIN_LINES 5        /* fewer may be a layer's: its output, an activation function's */
#define BLOCKS_OF_A_CALL 2 /* of one line: more are of several calls */

/* Did a stack allocate no block in any step before? */
static int is_new_stack(const struct device_pass *d, uint32_t stack, size_t count)
{
	const struct stack_levels *l = stack < count ? &d->stacks[stack] : NULL;

	/* The stack of a failed request may have no block in this step. */
	return l && !l->before && (!l->last_step || l->last_step == d->step + 1);
}

static void copy_passes(const struct device_pass *d, const struct live_passes *p,
			const struct tables *t)
{
	struct metrics *m = d->m;

	m->passes = p->count;
	m->generator_graph = p->generator;
	m->pass_newest = p->newest;
	m->passes_waiting = p->waiting_count;
	m->waiting = p->waiting;
	m->waiting_of_line = p->waiting_of_line;
	m->passes_kept = p->kept_count;
	m->kept = p->kept;
	m->kept_stacks = p->kept_stacks;
	m->again = p->again;
	m->left = p->left.bytes;
	m->left_now = p->left.now;
	m->left_behind = p->left.behind;
	m->left_blocks = p->left.blocks;
	m->left_steps = p->left.steps;
	m->left_stack = p->left.stack;
	m->again_is_new = p->again && is_new_stack(d, p->again_stack, t->stack_count);
	m->again_was_new = p->again && is_new_stack(d, p->first_stack, t->stack_count);
	metrics_compare_calls(d, t, p);
}

static void copy_duplicates(struct metrics *m, const struct duplicates *p)
{
	m->second_states = p->states;
	m->param_copies = p->copies;
	m->param_copies_blocks = p->copies_count;
	m->unstepped = p->unstepped;
	m->extra_gradients = p->extra_gradients;
	m->remade = p->remade;
	m->replicas = p->replicas;
	m->late_model = p->late;
	m->float64_layers = p->float64_layers;
	m->float32_layers = p->float32_layers;
	m->twin = p->twin;
	m->twin_copied = p->has_deep_copy;
	m->data = p->data.bytes;
	m->data_blocks = p->data.blocks;
	m->data_stack = p->data.stack;
	m->data_beside = p->data.beside;
	m->data_asked = p->request_is_own;
	m->gradient_copies = p->gradient_copies;
	m->gradient_copies_stay = p->copies_stay;
}

int metrics_may_be_huge(const struct device_pass *d, stack_tags tags, bytes size)
{
	return !metrics_is_logits(d, tags, size) && !metrics_is_score(d, tags, 0, size) &&
	       !metrics_is_own_step(tags) &&
	       !(tags &
		 (TAGGED(LINEAR) | TAGGED(OPTIMIZER) | TAGGED(LOAD) | TAGGED(SAVE) | TAGGED(CLIP) |
		  TAGGED(BUCKET) | TAGGED(FSDP_GATHER) | TAGGED(FSDP_REDUCE) |
		  TAGGED(FSDP_GRADIENT) | TAGGED(ZERO) | TAGGED(MEGATRON_FSDP) | TAGGED(COMPILE)));
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
	       category_is_of_pass(category) && metrics_may_be_huge(d, p->tags[stack], size);
}

/* The largest block of a layer. Its elementwise results are as large, and grow with the batch like
 * it. */
static bytes largest_of_layers(const struct metrics_pass *p, const struct snapshot *live)
{
	bytes largest = 0;

	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].stack < p->tables->stack_count &&
		    p->tags[live->groups[i].stack] & (TAGGED(LINEAR) | TAGGED(LAYER)) &&
		    live->groups[i].category != CATEGORY_WORKSPACES)
			largest = larger_of(largest, live->groups[i].largest);
	return largest;
}

/* Is it the output of a layer that is wider than all that have run, by no more than widths of a
 * model differ? */
static int is_of_wider_layer(stack_tags tags, bytes size, bytes layer)
{
	return tags & TAGGED(MODEL) && tags & (TAGGED(LINEAR) | TAGGED(LAYER)) && size <= 4 * layer;
}

/* Did the model allocate a block that is no larger than the output of its largest layer? */
static int is_in_proportion(const struct metrics_pass *p, uint32_t stack, bytes size, bytes layer)
{
	return tags_at(p, stack) & TAGGED(MODEL) && (size < layer || same_size(size, layer));
}

/*
 * In the backward pass, the gradients of such blocks have their sizes. Without frames, the size
 * alone tells them from what layers make, from gradients of parameters, and from workspaces.
 */
int metrics_is_huge(const struct metrics_pass *p, const struct device_pass *d, uint32_t stack,
		    bytes size)
{
	const struct snapshot *live = d->failure ? &d->failure->live : &d->device->at_peak;
	uint32_t flags = tables_stack_flags(p->tables, stack);
	enum block_hint hint = stack_hint(flags);

	if (hint == HINT_COMMUNICATION || hint == HINT_BUCKETS || hint == HINT_WORKSPACES ||
	    !metrics_may_be_huge(d, p->tags[stack], size))
		return 0;
	if (flags & STACK_FRAMES)
		return !is_in_proportion(p, stack, size, d->m->layer_output);
	return same_size(size, d->huge) ||
	       (size > d->m->layer_output && !same_size(size, d->m->layer_output) &&
		!workspace_sizes_have(&p->workspaces, size) &&
		!size_counts_find(&live->parameters, size));
}

void metrics_find_huge(struct device_pass *d, const struct metrics_pass *p,
		       const struct snapshot *live)
{
	struct metrics *m = d->m;
	const struct failure *f = d->failure && !d->failure->from_runtime ? d->failure : NULL;
	uint32_t stack = f && f->stack < p->tables->stack_count ? f->stack : MT_NO_STACK;
	bytes linear = largest_of_layers(p, live);
	/* A product asks for its workspace. */
	bytes request =
		f && !workspace_sizes_have(&p->workspaces, f->requested) &&
				!(same_size(f->requested, linear) &&
				  p->tags[stack] & TAGGED(MODEL)) &&
				is_candidate(p, d, stack, f->requested, CATEGORY_TEMPORARIES)
			? f->requested
			: 0;
	bytes most = 0;

	if (request && is_of_wider_layer(p->tags[stack], request, linear))
		request = 0;
	m->huge = request;
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (is_candidate(p, d, g->stack, g->largest, g->category) && g->largest > m->huge)
			m->huge = g->largest;
	}
	d->huge = m->huge;
	m->layer_output = linear;
	/* A block that is smaller than a layer's output is in proportion to it. */
	if (m->huge < linear)
		return;
	if (request && request >= m->huge / 4 && !is_in_proportion(p, stack, request, linear)) {
		m->huge_sum = most = request;
		m->huge_own = p->tags[stack] & TAGGED(MODEL) ? 0 : request;
		m->huge_blocks = m->huge_lines = 1;
		m->huge_stack = stack;
	}
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->largest < m->huge / 4 ||
		    !is_candidate(p, d, g->stack, g->largest, g->category))
			continue;
		if (is_in_proportion(p, g->stack, g->largest, linear)) {
			m->in_proportion += (int64_t)g->blocks;
			continue;
		}
		add(&m->huge_sum, g->bytes);
		add(&m->huge_own, p->tags[g->stack] & TAGGED(MODEL) ? 0 : g->bytes);
		m->huge_blocks += (int64_t)g->blocks;
		m->huge_lines += g->stack && g->stack != stack;
		if (g->bytes > most) {
			most = g->bytes;
			m->huge_stack = g->stack;
		}
	}
	m->huge_of_library = (tags_at(p, m->huge_stack) & TAGGED(TRANSFORMERS)) != 0;
}

/* Large tensors that the lines of one function make, as a loss or a head that the job wrote does.
 */
struct function {
	const struct mt_frame *frame; /* one of its lines */
	uint32_t lines[MIN_LINES];    /* the first ones that made a block */
	unsigned line_count;
	bytes sum;
};

/* The innermost frame outside of PyTorch, if no module was called in between; else NULL. */
static const struct mt_frame *frame_of(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);

	for (uint32_t i = 0; i < s->frame_count; i++) {
		if (frame_is(t, s->frames[i], FRAME_MODULE_CALL))
			return NULL;
		if (!frame_is(t, s->frames[i], FRAME_LIBRARY))
			return tables_frame(t, s->frames[i]);
	}
	return NULL;
}

static struct function *function_at(struct function *list, const struct mt_frame *f)
{
	size_t i = 0;

	while (i < MOST_FUNCTIONS && list[i].frame && !metrics_is_same_function(list[i].frame, f))
		i++;
	if (i == MOST_FUNCTIONS)
		return NULL;
	list[i].frame = f;
	return &list[i];
}

static void add_line(struct function *f, uint32_t line)
{
	unsigned i = 0;

	while (i < f->line_count && f->lines[i] != line)
		i++;
	if (i == f->line_count && i < MIN_LINES)
		f->lines[f->line_count++] = line;
}

static void add_block(struct function *list, const struct tables *t, uint32_t stack, bytes n)
{
	const struct mt_frame *frame = frame_of(t, stack);
	struct function *f = frame ? function_at(list, frame) : NULL;

	if (!f)
		return;
	add_line(f, frame->line);
	add(&f->sum, n);
}

static void find_function(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	struct function list[MOST_FUNCTIONS] = { 0 };
	struct metrics *m = d->m;

	for (size_t i = 0; m->huge && i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (category_is_of_pass(g->category) && same_size(g->largest, m->huge) &&
		    g->blocks <= BLOCKS_OF_A_CALL &&
		    !is_in_proportion(p, g->stack, g->largest, m->layer_output))
			add_block(list, p->tables, g->stack, g->bytes);
	}
	if (m->failed && same_size(m->requested, m->huge) &&
	    !is_in_proportion(p, m->request_stack, m->requested, m->layer_output))
		add_block(list, p->tables, m->request_stack, m->requested);
	for (size_t i = 0; i < MOST_FUNCTIONS; i++)
		if (list[i].line_count == MIN_LINES && list[i].sum > m->one_function &&
		    list[i].sum <= m->huge_sum)
			m->one_function = list[i].sum;
}

/* Blocks out of proportion are logits if a head made them, a linear layer that the job's own code
 * calls, or if they follow from its output, which may be freed. */
static void find_own_logits(const struct metrics_pass *p, struct device_pass *d,
			    const struct snapshot *live)
{
	const struct head_depths depths = metrics_head_depths(p);
	struct metrics *m = d->m;

	for (size_t i = 0; i < live->count && m->huge_sum; i++) {
		const struct block_group *g = &live->groups[i];

		if (!same_size(g->largest, m->huge) ||
		    !tables_stack_is_own_code(p->tables, g->stack) ||
		    !metrics_is_head(p, &depths, d->stacks[g->stack].first_stack))
			continue;
		m->logits_block = m->huge;
		m->logits_blocks = m->huge_blocks;
		m->logits = m->huge_sum;
		d->logits_are_huge = 1;
		m->huge_sum = m->huge_blocks = 0;
	}
}

/* Adds up the blocks of the backward pass for the largest unit of FSDP, in the type of the
 * parameters or of twice its size: the whole gradient, and its copies for the reduction. */
static void find_units(const struct metrics_pass *p, const struct device_pass *d,
		       const struct snapshot *live)
{
	struct metrics *m = d->m;

	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->tags[i] & TAGGED(FSDP_GATHER))
			m->fsdp_unit = larger_of(m->fsdp_unit, d->stacks[i].tallest);
	/* One rank has nothing to gather. It copies the gradients of a unit, as others do. */
	if (m->world_size <= 1 && d->failure && d->failure->stack < p->tables->stack_count &&
	    p->tags[d->failure->stack] & TAGGED(FSDP_REDUCE))
		m->fsdp_unit = larger_of(m->fsdp_unit, m->requested);
	if (!m->fsdp_unit || !m->in_backward)
		return;
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if ((g->category == CATEGORY_TEMPORARIES ||
		     g->category == CATEGORY_COMMUNICATION) &&
		    (same_size(g->largest, m->fsdp_unit) ||
		     same_size(g->largest / 2, m->fsdp_unit)))
			add(&m->unit_copies, g->bytes);
	}
	if (same_size(m->requested, m->fsdp_unit) || same_size(m->requested / 2, m->fsdp_unit))
		add(&m->unit_copies, m->requested);
}

/* Adds up the blocks that layers keep in this step although they ran under activation
 * checkpointing in the steps before: without it, they have new stacks. */
static void find_unchecked(const struct metrics_pass *p, const struct device_pass *d,
			   const struct snapshot *live)
{
	uint32_t latest = 0;

	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->tags[i] & TAGGED(RECOMPUTE) && d->stacks[i].last_step > latest)
			latest = d->stacks[i].last_step;
	for (size_t i = 0; latest && latest < d->step + 1 && i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (tags_at(p, g->stack) & TAGGED(MODEL) &&
		    is_new_stack(d, g->stack, p->tables->stack_count))
			add(&d->m->unchecked, g->bytes);
	}
}

/* A reference is called in each forward pass, and so are two towers that are both trained. */
static void find_idle_twin(struct metrics *m)
{
	int is_over = m->in_backward || m->in_optimizer;
	int is_called = m->called_twice || m->again || m->passes > 1;
	int is_trained =
		m->gradients > m->parameters / 4 * 3 || m->optimizer_states > m->parameters / 2 * 3;

	if (!is_called && !is_trained && !m->param_copies && (is_over || m->setup_line >= m->twin))
		m->idle_twin = m->twin;
}

void metrics_what_is_live(const struct metrics_pass *p, struct device_pass *d,
			  const struct snapshot *live)
{
	copy_passes(d, &live->passes, p->tables);
	copy_duplicates(d->m, &live->duplicates);
	d->m->untied = live->untied.bytes;
	d->m->untied_block = live->untied.block;
	d->m->untied_blocks = live->untied.count;
	metrics_find_own(p, d, live);
	find_own_logits(p, d, live);
	find_function(p, d, live);
	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		d->m->model_stacks += p->tags[i] & TAGGED(MODEL) && d->stacks[i].last_step &&
				      d->stacks[i].last_step + 1 >= d->step + 1;
	find_units(p, d, live);
	find_unchecked(p, d, live);
	metrics_find_doubled(p, d, live);
	/* It asks the source of what is doubled. */
	metrics_find_models(p, d, live);
	metrics_find_growing(p, d, live);
	metrics_find_widened(p, d, live);
	find_idle_twin(d->m);
}
