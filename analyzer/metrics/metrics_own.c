#include "metrics/metrics_own.h"

#include "metrics/metrics_sizes.h"

#include "attribution/corrections.h"

#include <stdlib.h>

#define MANY_INPUTS 8 /* tensors of one line: fewer may be the inputs of a step */
#define MIN_BATCHES 4 /* of a rollout: fewer blocks of a line may be a step's own */

/* Did the job's own code allocate the stack's blocks while it evaluates or generates? What a loss
 * needs is freed with the loss. */
static int is_of_evaluation(const struct metrics_pass *p, const struct device_pass *d,
			    uint32_t stack)
{
	return tags_at(p, stack) & TAGGED(EVALUATE) && !(tags_at(p, stack) & TAGGED(TRAINS)) &&
	       evaluation_names_tell(&d->trained_names, p->tables, stack) &&
	       tables_stack_is_own_code(p->tables, stack);
}

/* The set of data is that of one line, with none beside it. */
static void set_data(struct metrics *m, uint32_t stack, bytes sum, uint64_t blocks)
{
	m->data = sum;
	m->data_beside = 0;
	m->data_blocks = (int64_t)blocks;
	m->data_stack = stack;
}

/* Finds inputs that one line made for this step, many of them, and more than all that the model
 * keeps of them: a step uses a few. Those that a loop makes for each call of the model are none. */
static void find_many_inputs(const struct metrics_pass *p, const struct device_pass *d,
			     const struct snapshot *live)
{
	struct metrics *m = d->m;

	for (size_t i = 0; !m->in_evaluation && i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->category != CATEGORY_INPUTS || g->bytes <= m->data ||
		    g->bytes <= m->activations || g->blocks < MANY_INPUTS ||
		    g->smallest < g->largest / 2 ||
		    size_counts_find(&live->parameters, g->largest) ||
		    (int64_t)g->blocks < 4 * m->run_calls ||
		    !tables_stack_is_own_code(p->tables, g->stack))
			continue;
		set_data(m, g->stack, g->bytes, g->blocks);
	}
}

/* Is it the job's own code, in a constructor or not, without a sign of a parameter? */
static int is_of_job(const struct tables *t, uint32_t stack)
{
	uint32_t flags = tables_stack_flags(t, stack);
	enum block_hint hint = stack_hint(flags);

	return flags & STACK_FRAMES && !(flags & (STACK_MODULE | STACK_LOSS | STACK_LOADING)) &&
	       (hint == HINT_NOTHING || hint == HINT_INPUTS);
}

/* Finds what a constructor of the job's own made that is of no module: a data set, or a buffer. */
static void find_constructed(const struct metrics_pass *p, const struct device_pass *d,
			     const struct snapshot *live)
{
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->category == CATEGORY_INPUTS && g->bytes > d->m->data &&
		    tables_stack_flags(p->tables, g->stack) & STACK_INIT &&
		    !size_counts_find(&live->parameters, g->largest) &&
		    is_of_job(p->tables, g->stack))
			set_data(d->m, g->stack, g->bytes, g->blocks);
	}
}

/* Finds the tensors of one line of the job's own code that ran in this step for the first time.
 * They are no inputs that each step needs, which an earlier step would have had. Large results of
 * one step are freed in it. Copies of parameters do not count, nor does what a loop makes for each
 * call of the model. */
static void find_new_data(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	struct metrics *m = d->m;

	for (size_t i = 0;
	     (d->step || m->steps) && !(m->in_evaluation && m->run_evaluates) && i < live->count;
	     i++) {
		const struct block_group *g = &live->groups[i];
		const struct stack_levels *l =
			&d->stacks[g->stack < p->tables->stack_count ? g->stack : 0];

		if (g->category != CATEGORY_INPUTS || g->bytes <= m->data ||
		    size_counts_find(&live->parameters, g->largest) ||
		    !tables_stack_is_own_code(p->tables, g->stack) || l->last_step != d->step + 1 ||
		    l->steps != 1 || l->blocks != g->blocks ||
		    (g->blocks >= MIN_BATCHES && m->run_calls >= (int64_t)g->blocks))
			continue;
		set_data(m, g->stack, g->bytes, g->blocks);
	}
	find_many_inputs(p, d, live);
	find_constructed(p, d, live);
	if (live->duplicates.request_is_own && d->failure->stack < p->tables->stack_count &&
	    !d->stacks[d->failure->stack].blocks && d->failure->requested > m->data)
		set_data(m, d->failure->stack, d->failure->requested, 1);
	m->data_of_no_grad =
		m->data && tables_stack_flags(p->tables, m->data_stack) & STACK_NO_GRAD;
}

/* Small blocks, without a stack, that count as inputs: samples of a data set. */
static int are_samples(const struct tables *t, const struct block_group *g)
{
	return g->category == CATEGORY_INPUTS && g->blocks >= MANY_SAMPLES &&
	       !tables_stack_has_frames(t, g->stack);
}

/* Blocks of one kind, with the failed request. */
struct found_blocks {
	bytes bytes, largest; /* the largest of one stack */
	int64_t count;
	uint32_t stack; /* of the largest; MT_NO_STACK without any */
};

static void count_found(struct found_blocks *f, uint32_t stack, bytes sum, uint64_t blocks)
{
	add(&f->bytes, sum);
	f->count += (int64_t)blocks;
	if (sum > f->largest) {
		f->largest = sum;
		f->stack = stack;
	}
}

/* The failed request, unless a library made it. */
static const struct failure *request_of(const struct device_pass *d)
{
	return d->failure && !d->failure->from_runtime ? d->failure : NULL;
}

static int is_before_calls(const struct device_pass *d, struct block_tag tag)
{
	(void)d;
	return tag.before_calls;
}

static int is_of_run(const struct device_pass *d, struct block_tag tag)
{
	return tag.run == d->run;
}

/* The bytes and the number of the live blocks of each stack that are wanted. The caller frees the
 * result. */
static struct found_blocks *by_stack(const struct metrics_pass *p, const struct device_pass *d,
				     int (*wanted)(const struct device_pass *, struct block_tag))
{
	const unsigned device = (unsigned)(d - p->devices);
	struct found_blocks *of_stack = xcalloc(p->tables->stack_count, sizeof(*of_stack));

	for (size_t i = 0; p->live.slots && i <= p->live.mask; i++) {
		const struct mt_record *r = &p->live.slots[i];

		if (r->kind != MT_TENSOR_ALLOC || r->device != device ||
		    r->stack >= p->tables->stack_count || !wanted(d, tag_of(r)))
			continue;
		add(&of_stack[r->stack].bytes, r->bytes);
		of_stack[r->stack].count++;
	}
	return of_stack;
}

/* Finds the line of the job's own code that allocated most bytes before the first step, or before
 * the first call of the model. Constructors count too: of a model, or of a data set. */
static void find_of_setup(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	const unsigned data = 1u << CATEGORY_INPUTS | 1u << CATEGORY_OTHER;
	struct found_blocks *before = by_stack(p, d, is_before_calls);
	const struct failure *f = request_of(d);
	struct metrics *m = d->m;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		struct found_blocks found = { .bytes = g->bytes, .count = (int64_t)g->blocks };
		int asks, is_data = are_samples(p->tables, g);

		m->largest_parameter = larger_of(
			m->largest_parameter, g->category == CATEGORY_PARAMETERS ? g->largest : 0);
		if (d->backward_seen || g->stack >= p->tables->stack_count ||
		    !(is_of_job(p->tables, g->stack) || is_data))
			continue;
		asks = f && f->stack == g->stack;
		if (asks && m->in_setup)
			count_found(&found, g->stack, f->requested, 1);
		/* The live set has no blocks as small as samples: all of them count. */
		else if (!m->in_setup && !is_data)
			found = (struct found_blocks){
				.bytes = smaller_of(g->bytes, before[g->stack].bytes),
				.count = smaller_of((int64_t)g->blocks, before[g->stack].count)
			};
		if (found.bytes <= m->setup_line ||
		    (!m->in_setup && (asks || !(data & 1u << g->category))))
			continue;
		m->setup_line = found.bytes;
		m->setup_blocks = found.count;
		m->setup_stack = g->stack;
	}
	if (m->in_setup && f && f->requested > m->setup_line && is_of_job(p->tables, f->stack)) {
		m->setup_line = f->requested;
		m->setup_blocks = 1;
		m->setup_stack = f->stack;
	}
	m->setup_kept = m->setup_line;
	if (f && m->in_setup && f->stack == m->setup_stack && m->setup_blocks == 2 &&
	    m->setup_line > f->requested)
		m->setup_kept = larger_of(m->setup_line - f->requested, f->requested);
	free(before);
}

/* Adds up the blocks of the run among those that count as inputs. Data that were there before the
 * forward pass do not grow with its batch. */
static void find_batch_inputs(const struct metrics_pass *p, const struct device_pass *d,
			      const struct snapshot *live)
{
	struct found_blocks *of_stack = by_stack(p, d, is_of_run);

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->category == CATEGORY_INPUTS && g->stack < p->tables->stack_count)
			add(&d->m->batch_inputs, smaller_of(g->bytes, of_stack[g->stack].bytes));
	}
	free(of_stack);
}

/* Adds up the blocks that the job's own code allocated or requests in a function of evaluation or
 * generation: caches, results and buffers, but no block of the model. */
static void find_of_evaluation(const struct metrics_pass *p, const struct device_pass *d,
			       const struct snapshot *live)
{
	const struct failure *f = request_of(d);
	struct found_blocks found = { .stack = d->m->evaluated_stack };

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (is_of_evaluation(p, d, g->stack))
			count_found(&found, g->stack, g->bytes, g->blocks);
	}
	if (f && is_of_evaluation(p, d, f->stack))
		count_found(&found, f->stack, f->requested, 1);
	d->m->evaluated = found.bytes;
	d->m->evaluated_blocks = found.count;
	d->m->evaluated_stack = found.stack;
}

/* Adds up the copies of what layers take and return that the job's own hooks allocated or request.
 */
static void find_hooked(const struct metrics_pass *p, const struct device_pass *d,
			const struct snapshot *live)
{
	const unsigned kinds = 1u << CATEGORY_ACTIVATIONS | 1u << CATEGORY_TEMPORARIES |
			       1u << CATEGORY_INPUTS | 1u << CATEGORY_OTHER;
	const struct failure *f = request_of(d);
	struct found_blocks found = { .stack = d->m->hooked_stack };

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (kinds & 1u << g->category && tables_stack_is_hook(p->tables, g->stack))
			count_found(&found, g->stack, g->bytes, g->blocks);
	}
	if (f && tables_stack_is_hook(p->tables, f->stack))
		count_found(&found, f->stack, f->requested, 1);
	d->m->hooked = found.bytes;
	d->m->hooked_blocks = found.count;
	d->m->hooked_stack = found.stack;
}

/* Finds the blocks that a line of the job's own code allocated under no_grad() before the first
 * step of training and did not free, as each batch of a rollout does. */
static void find_rollouts(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	struct metrics *m = d->m;

	for (size_t i = 0;
	     !d->step && !d->backward_seen && !live->inference.is_inference && i < live->count;
	     i++) {
		const struct block_group *g = &live->groups[i];

		if ((g->category != CATEGORY_INPUTS && g->category != CATEGORY_OTHER) ||
		    g->blocks < MIN_BATCHES || g->stack >= p->tables->stack_count ||
		    !tables_stack_is_own_code(p->tables, g->stack) ||
		    !(tables_stack_flags(p->tables, g->stack) & STACK_NO_GRAD) ||
		    d->stacks[g->stack].freed || g->bytes != (bytes)g->blocks * g->largest ||
		    g->bytes <= m->run_repeat_bytes)
			continue;
		m->run_repeats = (int64_t)g->blocks;
		m->run_repeat_bytes = g->bytes;
		m->repeat_stack = g->stack;
	}
}

void metrics_find_own(const struct metrics_pass *p, const struct device_pass *d,
		      const struct snapshot *live)
{
	find_new_data(p, d, live);
	find_of_setup(p, d, live);
	find_batch_inputs(p, d, live);
	find_of_evaluation(p, d, live);
	find_hooked(p, d, live);
	find_rollouts(p, d, live);
}

void metrics_find_one_input(struct metrics *m)
{
	if (m->inference || m->huge_blocks != 1 || m->huge_own < m->huge_sum ||
	    m->data >= m->huge || m->requested > m->huge / 4 || m->batch_inputs < m->huge ||
	    m->batch_inputs - m->huge > m->huge / 20)
		return;
	m->data = m->huge;
	m->data_blocks = 1;
	m->data_stack = m->huge_stack;
}

void metrics_find_result(struct metrics *m)
{
	if (m->in_evaluation || !m->in_forward || !m->run_evaluates || m->run_trains ||
	    m->left_blocks != 1 || m->never_used < m->left ||
	    !is_same_half_or_twice(m->requested, m->left))
		return;
	m->in_evaluation = 1;
	m->left = m->left_blocks = m->left_steps = 0;
	m->left_now = m->left_behind = m->never_used = 0;
	m->unused_calls = larger_of(m->unused_layers, m->again_unused);
}
