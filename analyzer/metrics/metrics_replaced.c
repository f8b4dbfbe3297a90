#include "metrics/metrics_replaced.h"

#include "metrics/metrics_sizes.h"

#define OTHER_KIND 8    /* times as large: no concatenation makes that of a tensor of this kind */
#define MIN_GATHERED 4  /* tensors, and calls of the model: fewer may be of one batch */
#define MIN_CONVERTED 8 /* blocks of a model, at least; data is fewer */
#define RISES 2         /* fewer rising sizes in a row may be chance */
/* PyTorch's allocator leaves the rest of a block with it if that has up to 1 MiB (kSmallSize of
 * c10/cuda/CUDACachingAllocator.cpp). */
#define REST (INT64_C(1) << 20)

/* The block from which this one follows: the latest one before it. Blocks below an eighth of its
 * size, as factors of a product, do not count. */
static struct recent_block follow(const struct device_pass *d, uint32_t stack, bytes size)
{
	struct recent_block now = { .stack = stack, .first_stack = stack, .size = size };

	for (uint32_t i = d->recent_count; i && d->recent_count - i < METRICS_RECENT; i--) {
		const struct recent_block *b = &d->recent[(i - 1) % METRICS_RECENT];

		if (b->size < size / 8)
			continue;
		if (same_size(b->size, size)) {
			now.half_stack = b->half_stack;
			now.first_stack = b->first_stack;
		} else if (same_size(b->size, size / 2)) {
			now.half_stack = b->stack;
		}
		break;
	}
	return now;
}

void metrics_note_block(struct device_pass *d, struct stack_levels *l, const struct mt_record *r)
{
	struct recent_block now = follow(d, r->stack, r->bytes);

	l->half_stack = now.half_stack;
	l->first_stack = now.first_stack;
	d->recent[d->recent_count % METRICS_RECENT] = now;
	d->recent_count++;
	d->latest = r->bytes;
	d->latest_stack = r->stack;
	l->blocks++;
	if (r->bytes > l->tallest) {
		if (r->bytes / OTHER_KIND > l->tallest)
			l->grown_first = r->bytes;
		l->block_rises += l->live != 0;
		l->tallest = r->bytes;
	} else {
		l->block_falls += r->bytes + REST < l->tallest;
		l->block_others += r->bytes < l->tallest / OTHER_KIND;
	}
}

/* Is a block of twice the size of one before, but for what the allocator left with either? Twice a
 * block with a rest is twice that rest too large, which is little of 16 MiB, and much of 4. */
static int is_twice(bytes now, bytes was)
{
	bytes missing = now >= 16 * REST ? 2 * REST : REST;

	return same_size(now, 2 * was) ||
	       (now >= 4 * REST && now <= 2 * was + REST && now >= 2 * was - missing);
}

/* `p.data = p.data.to(type)`, as Module._apply does it too: the old block is freed right after the
 * new one was made. */
void metrics_note_freed(struct device_pass *d, const struct mt_record *was)
{
	struct stack_levels *l = &d->stacks[d->latest_stack];

	if (!d->backward_seen && is_twice(d->latest, was->bytes)) {
		add(&l->widened, d->latest);
		if (!d->pending.count && d->phase != PHASE_EVALUATION &&
		    was->stack != d->latest_stack) {
			add(&l->widened_before, d->latest);
			l->widens_sizes |=
				l->widened_last && !same_size(l->widened_last, d->latest);
			l->widened_last = d->latest;
		}
	}
	d->latest = 0;
}

/* A model of few parameters is as many blocks as another. The smallest blocks have one size in all
 * types. */
void metrics_note_converted(struct conversions *c, bytes change)
{
	bytes new = c->latest;

	c->latest = change > 0 ? change : 0;
	if (change > 0 && !new)
		return;
	if (change < 0 && new > 0 && (is_twice(new, -change) || new == -change)) {
		c->all++;
		c->twice += new > -change;
		add(&c->now, new > -change ? new : 0);
		if (c->all >= MIN_CONVERTED && c->twice >= MIN_CONVERTED / 2)
			c->most = larger_of(c->most, c->now);
		return;
	}
	c->all = c->twice = 0;
	c->now = 0;
}

/* A copy that the job's own code converted may have any category, since no frame shows its
 * purpose. Parameters have several sizes; a data set has one, and a tensor that doubles is of one
 * line. */
static bytes widened(const struct block_group *g, const struct stack_levels *l)
{
	if (g->category == CATEGORY_PARAMETERS)
		return l->widened;
	return l->widens_sizes ? l->widened_before : 0;
}

/* PEFT converts what is not quantised to fp32, which is little of a quantised base, and all of
 * another. */
void metrics_find_widened(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	bytes for_quantised = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->stack < p->tables->stack_count)
			add(p->tags[g->stack] & TAGGED(WIDENED) ? &for_quantised : &d->m->widened,
			    smaller_of(g->bytes, widened(g, &d->stacks[g->stack])));
	}
	d->m->converted = d->converted.most;
	if (for_quantised >= d->m->parameters / 10 * 8)
		add(&d->m->widened, for_quantised);
}

/* Is the request larger by as much as the blocks before were, of which each step has had one? The
 * first block may have come before the first step. */
static int is_next(const struct stack_levels *l, bytes request)
{
	bytes growth = request - l->tallest, before = l->tallest - l->grown_first;

	return l->rises && l->rises + 1 >= l->steps &&
	       (same_size(before, bytes_times(growth, l->rises)) ||
		same_size(before, bytes_times(growth, l->rises + 1)));
}

/* The same of blocks within a step. The first is one part, or the first two joined. */
static int is_next_block(const struct stack_levels *l, bytes request)
{
	bytes growth = request - l->tallest;

	return growth > 0 && l->block_rises >= RISES &&
	       same_size(l->tallest - l->grown_first, bytes_times(growth, l->block_rises)) &&
	       (same_size(l->grown_first, growth) || same_size(l->grown_first, 2 * growth));
}

/* Do the blocks grow, step by step, or outside of steps, and replace each other? A line may make
 * several tensors in turn, of each layer for example: `at_once` of one size; the job's own code
 * also much smaller ones, as the actions beside the states that a replay buffer holds. A model
 * whose input varies allocates growing blocks by chance. `request`: 0: none of
 * the line; a larger one is one more of them.
 */
static int is_growing(const struct stack_levels *l, int is_model, int is_inference, bytes request)
{
	uint32_t more = request > l->tallest, next = more && is_next(l, request);
	uint32_t least = is_model ? 2 * RISES : RISES;
	uint32_t at_once = (l->blocks + l->block_rises) / (l->block_rises + 1);
	uint32_t falls = l->block_falls - (is_model ? 0 : l->block_others);

	if (l->rises + next >= least && l->rises >= (l->steps - 1) / 5 * 4) {
		bytes twice = (bytes)(l->blocks / l->steps) * 2; /* the blocks of two steps */

		return (l->live + twice - 1) / twice <= l->tallest;
	}
	/* Of a few blocks, those before the latest were replaced, and are gone. */
	return (l->block_rises + more >= (is_inference && !is_model ? RISES : 2 * least) ||
		(!is_model && is_next_block(l, request))) &&
	       l->freed + (l->block_rises > RISES) >= l->block_rises && !falls && at_once &&
	       l->live / 2 / at_once <= l->tallest;
}

/* A tensor to which a job adds with torch.cat: the block of its stack is larger than the one
 * before, which is freed then. */
void metrics_find_growing(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	int is_inference = live->inference.is_inference;
	struct metrics *m = d->m;

	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		const struct stack_levels *l = &d->stacks[i];
		bytes request = d->failure && d->failure->stack == i ? d->failure->requested : 0;
		bytes last = larger_of(request, l->tallest);

		if (!is_growing(l, (p->tags[i] & TAGGED(MODEL)) != 0, is_inference, request) ||
		    last < l->grown_first / 100 * 199 ||
		    bytes_add(l->live, request) <= m->growing ||
		    p->tags[i] & (TAGGED(OPTIMIZER) | TAGGED(KV_CACHE)))
			continue;
		m->growing = bytes_add(l->live, request);
		m->growing_times = l->rises > l->block_rises ? l->rises : l->block_rises;
		m->growing_gathers = (p->tags[i] & TAGGED(GATHERS)) != 0;
		m->growing_first = l->grown_first;
		m->growing_stack = i;
		m->growing_last = last;
	}
}

/* The largest results that a library gathers from one line: of each batch it makes a larger tensor,
 * or several in turn, as logits and hidden states. */
static void find_gathered(const struct metrics_pass *p, const struct device_pass *d)
{
	struct metrics *m = d->m;

	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		const struct stack_levels *l = &d->stacks[i];
		int fails = d->failure && d->failure->stack == i;
		bytes live = bytes_add(l->live, fails ? d->failure->requested : 0);

		if (!(p->tags[i] & TAGGED(GATHERS)) || l->blocks + (uint32_t)fails < MIN_GATHERED ||
		    m->run_calls < MIN_GATHERED)
			continue;
		if (live <= m->run_repeat_bytes)
			continue;
		m->run_repeats = m->run_calls;
		m->run_repeat_bytes = live;
		m->repeat_stack = i;
	}
}

void metrics_find_grown_results(const struct metrics_pass *p, const struct device_pass *d)
{
	struct metrics *m = d->m;

	if (!m->in_evaluation)
		return;
	if (m->growing_gathers && m->growing > m->run_repeat_bytes) {
		m->run_repeats = m->growing_times + 1;
		m->run_repeat_bytes = m->growing;
		m->repeat_stack = m->growing_stack;
	}
	find_gathered(p, d);
}
