#include "metrics/metrics_larger.h"

#include "attribution/attribution.h"
#include "util/order.h"

#include <stdlib.h>

/* The largest block of a line of the model, called from one place. */
struct line_size {
	uint64_t model;
	bytes now, before; /* if the place is new in this step; in the steps before */
};

static int by_line(const void *a, const void *b)
{
	const struct line_size *x = a, *y = b;

	return ORDER(x->model, y->model);
}

/* Is the newest block of this step, or of the evaluation behind it? */
static int is_of_call(const struct device_pass *d, const struct stack_levels *l)
{
	return d->m->in_evaluation ? l->run == d->run : l->last_step == d->step + 1;
}

/* The lines that the model ran in this step from a new place, and before from any other. */
static size_t collect(const struct metrics_pass *p, const struct device_pass *d,
		      struct line_size *list)
{
	size_t count = 0;

	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		const struct stack_levels *l = &d->stacks[i];
		uint64_t model = tables_stack_info(p->tables, i)->model_hash;
		int is_now = is_of_call(d, l), is_new = is_now && !l->before;
		bytes asked = d->failure && d->failure->stack == i ? d->failure->requested : 0;

		if (!model || !l->last_step)
			continue;
		list[count++] = (struct line_size){
			.model = model,
			.now = is_new ? larger_of(l->now, asked) : 0,
			.before = is_new   ? 0
				  : is_now ? l->before
					   : larger_of(l->now, l->before),
		};
	}
	return count;
}

/* Has the innermost line of the failed request made blocks in the steps before, wherever it was
 * called from? */
static int was_asked_in_steps(const struct metrics_pass *p, const struct device_pass *d)
{
	const struct stack *of = d->failure ? tables_stack(p->tables, d->failure->stack) : NULL;

	for (uint32_t i = 1; of && of->frame_count && i < p->tables->stack_count; i++) {
		const struct stack_levels *l = &d->stacks[i];
		const struct stack *s = tables_stack(p->tables, i);

		if (s->frame_count && s->frames[0] == of->frames[0] &&
		    (l->before || (l->last_step && l->last_step <= d->step)))
			return 1;
	}
	return 0;
}

void metrics_find_larger(const struct metrics_pass *p, struct device_pass *d)
{
	struct line_size *list = xcalloc(p->tables->stack_count + 1, sizeof(*list));
	size_t count = collect(p, d, list);
	bytes now = 0, before = 0;

	if (count)
		qsort(list, count, sizeof(*list), by_line);
	for (size_t i = 0, k; i < count; i = k) {
		struct line_size largest = { 0 };

		for (k = i; k < count && list[k].model == list[i].model; k++) {
			largest.now = larger_of(largest.now, list[k].now);
			largest.before = larger_of(largest.before, list[k].before);
		}
		if (!largest.now || !largest.before)
			continue;
		now = bytes_add(now, largest.now);
		before = bytes_add(before, largest.before);
	}
	d->m->run_size_ratio = before ? now / (before / 100 + 1) : 0;
	d->m->asked_in_steps = was_asked_in_steps(p, d);
	free(list);
}
