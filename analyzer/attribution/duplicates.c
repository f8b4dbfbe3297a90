#include "attribution/duplicates.h"

#include "attribution/attribution.h"
#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>

#define MIN_SIZE (INT64_C(64) << 10) /* smaller blocks have no stack, and many have one size */
#define ADAM_STATES 2                /* of each parameter */
#define MOST_STATES 3                /* Adam with amsgrad */
#define MIN_SIZES 3    /* different sizes of states, of which a common divisor says something */
#define MIN_STEPPED 2  /* gradients with states: fewer may be of a size by chance */
#define MIN_COPIED 48  /* percent: what a copy of all parameters is of both, about a half */
#define MIN_REPEATED 8 /* parameters, in the order of a model before: fewer may be chance */
#define MAX_REPEATED 4096
#define MIN_SET 4 /* fewer tensors that a line made in a step may be for that step */
#define MAX_SPANS_OF_SET 4096

/* The counts by size of what training keeps. */
struct trained {
	struct size_counts parameters, states, gradients;
	int by_gradients; /* the gradients are all there: they tell what is trained */
	uint64_t states_each;
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Trained parameters of a size; 0 if nothing shows it. */
static uint64_t trained_of(const struct trained *n, bytes size)
{
	if (n->by_gradients)
		return size_counts_find(&n->gradients, size);
	return n->states_each ? size_counts_find(&n->states, size) / n->states_each : 0;
}

/*
 * Without gradients, the common divisor of the states' numbers tells how many each parameter has.
 * If all layers are alike it is a multiple of that: then as many as leave a parameter for each.
 */
static uint64_t states_each(const struct trained *n)
{
	uint64_t divisor = 0, least = 1;

	for (size_t i = 0; i < n->states.count; i++) {
		const struct size_count *s = &n->states.list[i];
		uint64_t parameters = size_counts_find(&n->parameters, s->size);

		divisor = gcd(s->count, divisor);
		while (parameters && least < MOST_STATES && s->count / least > parameters)
			least++;
	}
	return n->states.count >= MIN_SIZES && divisor <= MOST_STATES ? divisor : least;
}

static void count_trained(struct trained *n, const struct lifetimes *l, int is_backward)
{
	bytes gradients = 0, parameters = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct lifetime *x = &l->list[i];
		bytes size = x->alloc.bytes;

		if (size < MIN_SIZE)
			continue;
		if (x->category == CATEGORY_OPTIMIZER_STATES)
			size_counts_add(&n->states, size);
		if (x->category == CATEGORY_GRADIENTS) {
			size_counts_add(&n->gradients, size);
			gradients = bytes_add(gradients, size);
		}
		if (x->category == CATEGORY_PARAMETERS) {
			size_counts_add(&n->parameters, size);
			parameters = bytes_add(parameters, size);
		}
	}
	size_counts_sort(&n->parameters);
	size_counts_sort(&n->states);
	size_counts_sort(&n->gradients);
	n->by_gradients = !is_backward && gradients > parameters / 5 * 2;
	n->states_each = n->states.count ? states_each(n) : 0;
}

/* The states of a second optimizer: each parameter has at least twice those of Adam. */
static bytes second_states(const struct trained *n)
{
	bytes sum = 0, all = 0;

	for (size_t i = 0; i < n->states.count; i++) {
		const struct size_count *s = &n->states.list[i];
		uint64_t parameters = size_counts_find(&n->parameters, s->size);

		all = bytes_add(all, s->size * (bytes)s->count);
		if (parameters && s->count >= 2 * ADAM_STATES * parameters)
			sum = bytes_add(sum, s->size * (bytes)s->count);
	}
	return sum > all / 2 ? sum / 2 : 0;
}

/* A tensor that the job's own code holds, or a module, outside of any forward pass. */
static int is_held(const struct lifetime *l, const struct tables *t)
{
	return l->alloc.bytes >= MIN_SIZE &&
	       (l->category == CATEGORY_PARAMETERS || l->category == CATEGORY_BUFFERS ||
		l->category == CATEGORY_INPUTS || l->category == CATEGORY_OTHER ||
		l->category == CATEGORY_TEMPORARIES) &&
	       !(tables_stack_flags(t, l->alloc.stack) &
		 (STACK_MODULE | STACK_LOSS | STACK_OPTIMIZER | STACK_BACKWARD | STACK_CLIPPING)) &&
	       !(t->thread_flags[l->alloc.thread] & THREAD_AUTOGRAD);
}

static int by_time(const void *a, const void *b)
{
	const struct mt_record *x = &(*(const struct lifetime *const *)a)->alloc,
			       *y = &(*(const struct lifetime *const *)b)->alloc;

	return ORDER(x->time_ns, y->time_ns);
}

/* Of the held blocks of a size, the first ones are the model's, as many as are trained. */
static void find_copies(struct duplicates *d, const struct trained *n,
			const struct lifetime *const *held, size_t count)
{
	struct size_counts met = { 0 };
	bytes parameters = 0;

	for (size_t i = 0; i < count; i++) {
		size_counts_add(&met, held[i]->alloc.bytes);
		if (held[i]->category == CATEGORY_PARAMETERS || trained_of(n, held[i]->alloc.bytes))
			parameters = bytes_add(parameters, held[i]->alloc.bytes);
	}
	size_counts_sort(&met);
	for (size_t i = count; i-- > 0;) {
		const struct mt_record *r = &held[i]->alloc;
		struct size_count *left = size_counts_at(&met, r->bytes);
		uint64_t trained = trained_of(n, r->bytes);
		/* A copy in fp32 of what is trained in 16 bits. */
		int is_wider = !trained && held[i]->category != CATEGORY_PARAMETERS &&
			       trained_of(n, r->bytes / 2);

		if (!is_wider && (!trained || !left || left->count <= trained))
			continue;
		if (left)
			left->count--;
		d->copies = bytes_add(d->copies, r->bytes);
		d->copies_count++;
	}
	size_counts_release(&met);
	/* A frozen part of the model has layers of the same sizes, and no copy of the rest. */
	if (d->copies < parameters / 100 * MIN_COPIED) {
		d->copies = 0;
		d->copies_count = 0;
	}
}

/* Is some size once in the list, among those of its first `count` that are repeated? Without one,
 * the list repeats itself because the layers of a model are alike. */
static int has_unique(const struct lifetime *const *list, size_t length, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t same = 0;

		for (size_t k = 0; k < length && same < 2; k++)
			same += list[k]->alloc.bytes == list[i]->alloc.bytes;
		if (same == 1)
			return 1;
	}
	return 0;
}

/*
 * Before anything is trained: the sizes of parameters, in the order in which they were made, are
 * those of a first model and then the same once more, or a part of it.
 */
static void find_second_model(struct duplicates *d, const struct lifetime *const *held,
			      size_t count)
{
	const struct lifetime **list = xcalloc(count + 1, sizeof(struct lifetime *));
	size_t n = 0, first;

	for (size_t i = 0; i < count && n < MAX_REPEATED; i++)
		if (held[i]->category != CATEGORY_INPUTS)
			list[n++] = held[i];
	for (first = n / 2; first + MIN_REPEATED <= n && first <= n - n / 3; first++) {
		size_t k = 0;

		while (first + k < n && list[first + k]->alloc.bytes == list[k]->alloc.bytes)
			k++;
		if (first + k < n || !has_unique(list, first, k))
			continue;
		for (k = first; k < n; k++)
			d->copies = bytes_add(d->copies, list[k]->alloc.bytes);
		d->copies_count = (uint32_t)(n - first);
		break;
	}
	free(list);
}

/* Gradients of sizes of which there is no state, while others of the same moment have some. */
static void find_unstepped(struct duplicates *d, const struct trained *n)
{
	bytes unstepped = 0;
	uint64_t stepped = 0;

	for (size_t i = 0; n->states_each && i < n->gradients.count; i++) {
		const struct size_count *g = &n->gradients.list[i];

		/* A state of another precision is of half or twice the size, or of four times. */
		if (size_counts_find(&n->states, g->size) ||
		    size_counts_find(&n->states, g->size / 2) ||
		    size_counts_find(&n->states, g->size * 2) ||
		    size_counts_find(&n->states, g->size * 4))
			stepped += g->count;
		else
			unstepped = bytes_add(unstepped, g->size * (bytes)g->count);
	}
	d->unstepped = stepped >= MIN_STEPPED ? unstepped : 0;
}

/* Does a parameter have this size? */
static int is_of_model(const struct trained *n, bytes size)
{
	return size_counts_find(&n->parameters, size) || trained_of(n, size);
}

/* Does the job's own code make this block, and no module's or library's? */
static int is_data(const struct trained *n, const struct lifetime *l, const struct tables *t)
{
	uint32_t flags = tables_stack_flags(t, l->alloc.stack);
	enum block_hint hint = stack_hint(flags);

	return flags & STACK_FRAMES && !(flags & (STACK_INIT | STACK_LOADING | STACK_SAVING)) &&
	       (hint == HINT_NOTHING || hint == HINT_INPUTS) && l->category != CATEGORY_BUFFERS &&
	       !is_of_model(n, l->alloc.bytes) && !is_of_model(n, l->alloc.bytes / 2) &&
	       !is_of_model(n, l->alloc.bytes * 2);
}

static int by_stack(const void *a, const void *b)
{
	const struct mt_record *x = &(*(const struct lifetime *const *)a)->alloc,
			       *y = &(*(const struct lifetime *const *)b)->alloc;

	return x->stack != y->stack ? ORDER(x->stack, y->stack) : ORDER(x->time_ns, y->time_ns);
}

static uint32_t step_of(const struct spans *spans, const struct lifetime *l)
{
	const struct span *s = spans_at(spans, l->alloc.time_ns);

	return s ? s->step : 0;
}

/* May a set of `blocks` tensors be data, the first of which was made in the span `s`? What the
 * forward pass of the step that runs has made, of number `now`, is needed; so is a tensor or two
 * that any code of that step has made. */
static int may_be_data(const struct span *s, uint32_t blocks, uint32_t now)
{
	if (!s || s->phase == PHASE_SETUP || s->step != now)
		return 1;
	return blocks >= MIN_SET && s->phase != PHASE_FORWARD;
}

/* Is the model called between two times? Its results are no data. */
static int is_model_between(const struct spans *spans, uint64_t from_ns, uint64_t to_ns)
{
	const struct span *first = spans_at(spans, from_ns), *last = spans_at(spans, to_ns);

	if (!first || last - first > MAX_SPANS_OF_SET)
		return 1;
	for (const struct span *s = first; s <= last; s++)
		if (s->activity == ACTIVITY_MODEL || s->activity == ACTIVITY_EVALUATION)
			return 1;
	return 0;
}

/* The tensors that one line made in one step. */
struct set {
	bytes bytes;
	uint32_t blocks;
};

/* The largest set of one line, whose held blocks are list[0], list[1]... of `count`. */
static struct set largest_set(const struct trained *n, const struct spans *spans,
			      const struct tables *t, const struct lifetime *const *list,
			      size_t count, uint32_t now)
{
	struct set largest = { 0 }, all = { 0 };

	for (size_t i = 0, k; i < count; i = k) {
		uint32_t step = step_of(spans, list[i]);
		struct set s = { 0 };

		for (k = i; k < count && step_of(spans, list[k]) == step; k++) {
			if (!is_data(n, list[k], t))
				continue;
			s.bytes = bytes_add(s.bytes, list[k]->alloc.bytes);
			s.blocks++;
		}
		all.bytes = bytes_add(all.bytes, s.bytes);
		if (s.bytes > largest.bytes &&
		    may_be_data(spans_at(spans, list[i]->alloc.time_ns), s.blocks, now) &&
		    !is_model_between(spans, list[i]->alloc.time_ns, list[k - 1]->alloc.time_ns))
			largest = s;
	}
	/* What a line makes in every step adds up, and is no set. */
	return largest.bytes >= all.bytes / 5 * 4 ? largest : (struct set){ 0 };
}

/* Sorts the held blocks. */
static void find_data(struct duplicates *d, const struct trained *n, const struct spans *spans,
		      const struct tables *t, const struct lifetime **held, size_t count,
		      uint32_t now)
{
	if (count)
		qsort(held, count, sizeof(struct lifetime *), by_stack);
	for (size_t i = 0, k; i < count; i = k) {
		struct set s;

		for (k = i; k < count && held[k]->alloc.stack == held[i]->alloc.stack; k++)
			;
		s = largest_set(n, spans, t, held + i, k - i, now);
		if (s.bytes <= d->data)
			continue;
		d->data = s.bytes;
		d->data_blocks = s.blocks;
	}
}

struct duplicates duplicates_live(const struct lifetimes *l, const struct spans *spans,
				  const struct tables *t, uint64_t at_ns)
{
	const struct span *now = spans_at(spans, at_ns);
	struct duplicates d = { 0 };
	struct trained n = { 0 };
	const struct lifetime **held = xcalloc(l->count + 1, sizeof(struct lifetime *));
	size_t count = 0;

	count_trained(&n, l, now && now->phase == PHASE_BACKWARD);
	for (size_t i = 0; i < l->count; i++)
		if (is_held(&l->list[i], t))
			held[count++] = &l->list[i];
	if (count)
		qsort(held, count, sizeof(struct lifetime *), by_time);
	find_copies(&d, &n, held, count);
	if (!n.states.count && !n.gradients.count)
		find_second_model(&d, held, count);
	find_unstepped(&d, &n);
	find_data(&d, &n, spans, t, held, count, now ? now->step : 0);
	d.states = second_states(&n);
	free(held);
	size_counts_release(&n.parameters);
	size_counts_release(&n.states);
	size_counts_release(&n.gradients);
	return d;
}
