/* What stays behind, stack by stack: step after step, or in a run that no backward pass follows. */
#include "metrics/metrics_pass.h"

#include <stdlib.h>

#define GROWTHS 6 /* sizes in a row that rise by chance are fewer */

static int by_stack(const void *a, const void *b)
{
	const struct surviving_block *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (!x->stack && x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->age != y->age)
		return x->age < y->age ? -1 : 1;
	return (x->size > y->size) - (x->size < y->size);
}

static int is_same_stack(const struct surviving_block *a, const struct surviving_block *b)
{
	return a->stack == b->stack && (a->stack || a->thread == b->thread);
}

/* Blocks of one stack, sorted by age: do they stay behind step after step, from the first steps on?
 */
static void take_leak(struct device_pass *d, const struct surviving_block *l, size_t count, bytes *largest)
{
	struct metrics *m = d->m;
	uint32_t steps = 0, oldest = 0, blocks = 0;
	bytes sum = 0;

	for (size_t i = 0; i < count; i++) {
		if (!l[i].age)
			continue;
		steps += !i || l[i].age != l[i - 1].age;
		oldest = l[i].age > oldest ? l[i].age : oldest;
		sum = bytes_add(sum, l[i].size);
		blocks++;
	}
	if (steps < 4 || steps * 10 < oldest * 6 ||
	    oldest * 10 < (d->step > 2 ? d->step - 2 : 0) * 6)
		return;
	add(&m->leak_bytes, sum);
	add(&m->leak_per_step, sum / steps);
	m->leak_blocks += blocks;
	m->leak_steps = steps > m->leak_steps ? steps : m->leak_steps;
	if (sum > *largest) {
		*largest = sum;
		m->leak_stack = l->stack;
		m->leak_thread = l->thread;
	}
}

/* Blocks of one size that a stack outside of the training's loop leaves behind in the run. */
static void take_repeats(struct device_pass *d, const struct surviving_block *l, size_t count)
{
	struct metrics *m = d->m;

	for (size_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && l[i + n].size == l[i].size && l[i + n].age == l[i].age;
		     n++)
			;
		if (l[i].age || !l[i].in_run || l[i].size <= m->run_repeat_bytes / (bytes)n ||
		    l[i].size > BYTES_LIMIT / (bytes)n)
			continue;
		m->run_repeats = (int64_t)n;
		m->run_repeat_bytes = (bytes)n * l[i].size;
		m->repeat_stack = l[i].stack;
	}
}

/* One block that a stack makes anew for each batch, each time with more in it. */
static void take_grown(struct device_pass *d, const struct surviving_block *l, size_t count)
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

void metrics_find_leaks(struct device_pass *d, struct surviving_block *left, size_t count)
{
	bytes largest = 0;

	if (count)
		qsort(left, count, sizeof(*left), by_stack);
	for (size_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && is_same_stack(&left[i], &left[i + n]);
		     n++)
			;
		take_leak(d, &left[i], n, &largest);
		take_repeats(d, &left[i], n);
		take_grown(d, &left[i], n);
	}
}
