#include "metrics/metrics_leaks.h"

#include "metrics/metrics_calls.h"
#include "metrics/metrics_head.h"
#include "metrics/metrics_sizes.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

#define GRADIENTS_OF_FEW 8 /* of the parameters, the part that nobody trains alone */
#define MIN_LEAK_STEPS 2   /* of one step alone, the blocks may be there for good */
#define GROWTHS 6          /* fewer rising sizes in a row may be chance */
#define MIN_CALLS 4        /* fewer blocks may be of one call's layers */
#define MIN_JOINED 8       /* results that one tensor holds */
#define MIN_ROUNDS 8       /* of a loop before any backward pass */
#define MIN_LAYERS 2       /* of one size, of as many calls of a line */

static int by_stack(const void *a, const void *b)
{
	const struct surviving_block *x = a, *y = b;

	if (x->stack != y->stack)
		return ORDER(x->stack, y->stack);
	if (!x->stack && x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->age != y->age)
		return ORDER(x->age, y->age);
	return ORDER(x->size, y->size);
}

static int is_same_stack(const struct surviving_block *a, const struct surviving_block *b)
{
	return a->stack == b->stack && (a->stack || a->thread == b->thread);
}

static int is_of_run(const struct surviving_block *l)
{
	return l->in_run && !l->age;
}

static int is_of_autograd(const struct tables *t, const struct surviving_block *l)
{
	return (t->thread_flags[l->thread] & THREAD_AUTOGRAD) != 0;
}

/* Did the job's own code allocate the block, outside of any model, as a buffer of observations
 * does? */
static int is_stored(const struct tables *t, const struct surviving_block *l)
{
	return l->stack && !is_of_autograd(t, l) && !tables_stack_info(t, l->stack)->model_hash;
}

/*
 * The bytes of this step, `now`, that its peak would not have had without the leak. A block that
 * is allocated after a step counts as the next step's: the first step has none of them, and this
 * step has those of the step before. A hook allocates copies beside the blocks that the model
 * needs: the step that failed would have had as many bytes of them as every step, `usual`. No step
 * has left more than `most`: this step needs all its other blocks itself.
 */
static bytes beyond_need(const struct tables *t, const struct device_pass *d, uint32_t stack,
			 int since_first, bytes now, bytes usual, bytes most)
{
	if (tables_stack_is_hook(t, stack))
		return d->failure ? larger_of(now, usual) : now;
	return since_first ? 0 : smaller_of(now, most);
}

/* The innermost function of a stack; NULL: it has no frames. */
static const struct mt_frame *function_of(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);

	return s->frame_count ? tables_frame(t, s->frames[0]) : NULL;
}

/* Did the step fail in the function that stores its own blocks behind its end, where those of the
 * step before count as its own too? */
static int is_storing(const struct tables *t, const struct device_pass *d,
		      const struct surviving_block *l, bytes now, bytes most)
{
	return d->failure && l->stack && is_stored(t, l) &&
	       metrics_is_same_function(function_of(t, d->failure->stack),
					function_of(t, l->stack)) &&
	       d->failure->requested <= most && now + d->failure->requested > most;
}

/* The blocks of one stack, sorted by age, are a leak if they remain step after step from the first
 * steps on. */
static void record_leak(const struct tables *t, struct device_pass *d,
			const struct surviving_block *l, size_t count, bytes *largest)
{
	struct metrics *m = d->m;
	uint32_t steps = 0, oldest = 0, blocks = 0;
	bytes sum = 0, now = 0, of_step = 0, most = 0, newest = 0;

	for (size_t i = 0; i < count; i++) {
		if (!l[i].age) {
			now = bytes_add(now, l[i].size);
			continue;
		}
		if (!i || l[i].age != l[i - 1].age) {
			steps++;
			of_step = 0;
		}
		add(&of_step, l[i].size);
		most = larger_of(most, of_step);
		newest = steps == 1 ? of_step : newest;
		oldest = l[i].age > oldest ? l[i].age : oldest;
		sum = bytes_add(sum, l[i].size);
		blocks++;
	}
	if (steps < MIN_LEAK_STEPS || steps * 10 < oldest * 6 ||
	    oldest * 10 < (d->step > 2 ? d->step - 2 : 0) * 6)
		return;
	add(&m->leak_bytes, sum);
	add(&m->leak_now, beyond_need(t, d, l->stack, oldest == d->step, now, sum / steps, most));
	m->leak_storing |= oldest < d->step && is_storing(t, d, l, now, most);
	add(&m->leak_in_use, tables_stack_flags(t, l->stack) & STACK_INIT && !now ? newest : 0);
	add(&m->leak_autograd, is_of_autograd(t, l) ? sum : 0);
	add(&m->leak_stored, is_stored(t, l) ? sum : 0);
	add(&m->leak_per_step, sum / steps);
	m->leak_blocks += blocks;
	m->leak_steps = steps > m->leak_steps ? steps : m->leak_steps;
	if (sum > *largest) {
		*largest = sum;
		m->leak_stack = l->stack;
		m->leak_thread = l->thread;
		m->leak_consumed = l->stack ? d->stacks[l->stack].outlived : 0;
	}
}

/* Blocks of one size and stack that remain in the run, outside of the training loop. */
static void record_repeats(struct device_pass *d, const struct surviving_block *l, size_t count)
{
	struct metrics *m = d->m;

	for (size_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && l[i + n].size == l[i].size && l[i + n].age == l[i].age;
		     n++)
			;
		if (!is_of_run(&l[i]) || l[i].size <= m->run_repeat_bytes / (bytes)n ||
		    l[i].size > BYTES_LIMIT / (bytes)n)
			continue;
		m->run_repeats = (int64_t)n;
		m->run_repeat_bytes = (bytes)n * l[i].size;
		m->repeat_stack = l[i].stack;
	}
}

/* How many blocks at the begin of the list are of one stack? */
static size_t of_one_stack(const struct surviving_block *l, size_t count)
{
	size_t n = 1;

	while (n < count && is_same_stack(l, &l[n]))
		n++;
	return n;
}

/* The blocks of one stack that the run keeps: all of them, and the most of one size. `alike`: all
 * of them, if each is as large as the smallest but for what the allocator does not split off. */
struct kept_results {
	int64_t blocks;
	bytes all, of_size, alike;
};

static struct kept_results results_of(const struct surviving_block *l, size_t count)
{
	struct kept_results r = { 0 };
	bytes same = 0, least = BYTES_LIMIT, most = 0;
	int64_t blocks = 0;

	for (size_t i = 0; i < count; i++) {
		if (!is_of_run(&l[i]))
			continue;
		if (!i || l[i].size != l[i - 1].size)
			same = blocks = 0;
		blocks++;
		r.blocks++;
		add(&same, l[i].size);
		add(&r.all, l[i].size);
		least = smaller_of(least, l[i].size);
		most = larger_of(most, l[i].size);
		if (blocks >= MIN_CALLS)
			r.of_size = larger_of(r.of_size, same);
	}
	if (sizes_are_alike(least, most) && least <= BYTES_LIMIT / larger_of(r.blocks, 1))
		r.alike = least * r.blocks;
	return r;
}

/* The sizes of the run's blocks, and of the failed request, by size. The caller frees them. */
static bytes *sizes_of_run(const struct device_pass *d, const struct surviving_block *left,
			   size_t count, size_t *sizes)
{
	bytes *list = xcalloc(count + 1, sizeof(*list));

	*sizes = 0;
	for (size_t i = 0; i < count; i++)
		if (is_of_run(&left[i]))
			list[(*sizes)++] = left[i].size;
	if (*sizes && d->failure)
		list[(*sizes)++] = d->failure->requested;
	if (*sizes)
		qsort(list, *sizes, sizeof(*list), by_bytes_rising);
	return list;
}

/* Is one of them as large as `sum`? */
static int is_joined(const bytes *sizes, size_t count, bytes sum)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (sizes[middle] < sum && !same_size(sizes[middle], sum))
			low = middle + 1;
		else
			high = middle;
	}
	return sum && low < count && same_size(sizes[low], sum);
}

/*
 * Results of an evaluation that are put together at its end: one tensor is as large as what a stack
 * keeps, of all of its sizes or of one. Then these are what repeats itself, and what is computed
 * of them is no data. What repeats itself more often, and has more, does so without them.
 */
static void record_joined(const struct tables *t, struct device_pass *d,
			  const struct surviving_block *left, size_t count)
{
	struct metrics *m = d->m;
	bytes results = m->run_repeats >= MIN_JOINED ? m->run_repeat_bytes : 0;
	bytes computed = d->failure ? d->failure->requested : 0;
	size_t size_count;
	bytes *sizes = sizes_of_run(d, left, count, &size_count);
	int found = 0;

	for (size_t i = 0, n; i < count && size_count; i += n) {
		struct kept_results r;

		n = of_one_stack(&left[i], count - i);
		r = results_of(&left[i], n);
		if (r.blocks < MIN_JOINED)
			add(&computed, tables_stack_info(t, left[i].stack)->model_hash ? 0 : r.all);
		if (r.blocks < MIN_JOINED || r.all < results ||
		    !(is_joined(sizes, size_count, r.all) ||
		      is_joined(sizes, size_count, r.of_size) ||
		      is_joined(sizes, size_count, r.alike)))
			continue;
		results = r.all;
		found = 1;
		m->run_repeats = r.blocks;
		m->run_repeat_bytes = r.all;
		m->repeat_stack = left[i].stack;
	}
	free(sizes);
	if (!found)
		return;
	m->joined = computed;
	m->data = m->data <= computed ? 0 : m->data;
}

/* Has the stack as many blocks in the run as the one that repeats itself most? */
static int repeats_too(const struct metrics *m, const struct surviving_block *l, size_t count)
{
	int64_t in_run = 0;

	for (size_t i = 0; i < count; i++)
		in_run += is_of_run(&l[i]);
	return m->run_repeats && in_run >= m->run_repeats;
}

/* Is the stack of the job's own code, with a graph? */
static int may_keep_own(const struct tables *t, uint32_t stack)
{
	return tables_stack_is_own_code(t, stack) &&
	       !(tables_stack_flags(t, stack) & STACK_NO_GRAD);
}

/* How often a loop around calls of the model has run: by what repeats itself in the run; before any
 * backward pass, by the line of the job's own code that has most blocks. */
static int64_t rounds_of_loop(const struct device_pass *d, const struct tables *t,
			      const struct surviving_block *left, size_t count)
{
	int64_t most = 0;

	if (d->backward_seen)
		return d->m->run_repeats;
	for (size_t i = 0, n; i < count; i += n) {
		n = of_one_stack(&left[i], count - i);
		if (may_keep_own(t, left[i].stack) && (int64_t)n > most)
			most = (int64_t)n;
	}
	return most >= MIN_ROUNDS && d->m->run_calls >= most / 2 ? most : 0;
}

/* Has such a stack blocks of half the rounds? What lines compute with a graph stays for the
 * backward pass, line by line. */
static int keeps_own(const struct device_pass *d, const struct tables *t, int64_t rounds,
		     const struct surviving_block *l, size_t count)
{
	int64_t in_run = 0;

	for (size_t i = 0; i < count; i++)
		in_run += (l[i].in_run || !d->backward_seen) && !l[i].age;
	return may_keep_own(t, l->stack) && rounds >= MIN_CALLS && in_run >= rounds / 2;
}

/* Has a stack of a model so many blocks of one size, all of this step? `in_run`: and all of a run
 * that no backward pass follows. */
static int keeps(const struct tables *t, const struct surviving_block *l, size_t count,
		 size_t least, int in_run)
{
	if (!tables_stack_info(t, l->stack)->model_hash)
		return 0;
	for (size_t i = 0; i + least <= count; i++) {
		const struct surviving_block *last = &l[i + least - 1];

		if (!l[i].age && !last->age && last->size == l[i].size &&
		    (!in_run || (l[i].in_run && last->in_run)))
			return 1;
	}
	return 0;
}

/* A block that a stack allocates anew for each batch, each time larger. */
static void record_growing(struct device_pass *d, const struct surviving_block *l, size_t count)
{
	struct metrics *m = d->m;
	const struct stack_levels *stack = &d->stacks[l->stack];
	bytes sum = d->failure && m->request_stack == l->stack ? m->requested : 0;

	if (!l->stack || stack->run != d->run || stack->growths < GROWTHS ||
	    stack->top == INT64_MAX)
		return;
	for (size_t i = 0; i < count; i++)
		sum = l[i].in_run ? bytes_add(sum, l[i].size) : sum;
	if (sum <= m->run_repeat_bytes)
		return;
	m->run_repeats = stack->growths;
	m->run_repeat_bytes = sum;
	m->repeat_stack = l->stack;
}

/* Does any stack have a model's frames? If none has, no stack is known to be outside of a model. */
static int knows_a_model(const struct tables *t)
{
	for (uint32_t i = 1; i < t->stack_count; i++)
		if (tables_stack_info(t, i)->model_hash)
			return 1;
	return 0;
}

/*
 * Have backward passes run, and left next to nothing that may be a gradient of a parameter? They
 * are derivatives with respect to inputs (torch.autograd.grad), which an attack or a penalty takes
 * within one loss. Adapters are small beside the parameters, and DDP's buckets are made before the
 * backward pass.
 */
static int are_of_one_loss(const struct device_pass *d)
{
	const struct metrics *m = d->m;
	const stack_tags others = TAGGED(OPTIMIZER) | TAGGED(CLIP) | TAGGED(ADAPTER) |
				  TAGGED(OWN_ADAPTER) | TAGGED(DDP) | TAGGED(FSDP) | TAGGED(ZERO) |
				  TAGGED(MEGATRON);

	return m->failed && d->count >= 2 && !(m->tags & others) &&
	       d->device->outlived < m->parameters / GRADIENTS_OF_FEW;
}

/* What their forward passes have made waits for the loss's own backward pass. */
static void wait_for_the_loss(struct metrics *m)
{
	m->within_loss = 1;
	m->passes_waiting += m->passes_kept;
	add(&m->waiting, m->kept);
	if (m->leak_bytes / 10 * 9 <= m->kept)
		m->leak_bytes = m->leak_steps = m->leak_per_step = 0;
	m->passes_kept = m->kept = 0;
}

void metrics_find_leaks(const struct tables *t, struct device_pass *d, struct surviving_block *left,
			size_t count)
{
	bytes largest = 0;
	int64_t rounds;

	if (count)
		qsort(left, count, sizeof(*left), by_stack);
	for (size_t i = 0, n; i < count; i += n) {
		n = of_one_stack(&left[i], count - i);
		record_leak(t, d, &left[i], n, &largest);
		record_repeats(d, &left[i], n);
		record_growing(d, &left[i], n);
		d->m->run_kept_stacks += keeps(t, &left[i], n, MIN_CALLS, 1);
		d->m->run_layer_stacks += keeps(t, &left[i], n, MIN_LAYERS, 0);
	}
	record_joined(t, d, left, count);
	if (d->m->leak_stored && !knows_a_model(t))
		d->m->leak_stored = 0;
	rounds = rounds_of_loop(d, t, left, count);
	for (size_t i = 0, n; i < count; i += n) {
		n = of_one_stack(&left[i], count - i);
		d->m->run_repeat_stacks += repeats_too(d->m, &left[i], n);
		d->m->run_own_stacks += keeps_own(d, t, rounds, &left[i], n);
	}
	d->m->never_used = metrics_never_used(d, t, left, count);
	d->m->unused_calls =
		larger_of(d->m->unused_layers, larger_of(d->m->again_unused, d->m->never_used));
	if (are_of_one_loss(d))
		wait_for_the_loss(d->m);
}
