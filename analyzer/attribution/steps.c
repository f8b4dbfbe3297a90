#include "attribution/steps.h"

#include "attribution/attribution.h"
#include "util/order.h"

#include <stdlib.h>

/* A call of a model allocates more blocks than this. Under no_grad only its results stay live. */
#define CALL_ALLOCS 10
#define CALL_LEAVES 3

struct numbering {
	struct span *list;
	size_t count;
	const struct tables *tables;
	int has_model; /* some span is a forward pass */
	size_t first;  /* the span with which step 1 begins; `count`: there is none */
	/* Of each backward pass: how it is followed. */
	unsigned char *ends;
	size_t backwards;
};

/* How a backward pass is followed; the last two end a step. */
enum { FOLLOWED_BY_NOTHING, FOLLOWED_BY_OPTIMIZER, ENDS_BY_COUNT };

static int is_forward(uint8_t a)
{
	return a == ACTIVITY_MODEL;
}

static int is_backward(uint8_t a)
{
	return a == ACTIVITY_BACKWARD || a == ACTIVITY_RECOMPUTE;
}

/* The calls of a model from one line. */
struct calls {
	uint32_t caller;
	uint64_t spans, allocs, left; /* left: blocks still live after the call */
	uint64_t freed;               /* of them, freed next by the job's own code */
};

static int by_caller(const void *a, const void *b)
{
	uint32_t x = ((const struct calls *)a)->caller, y = ((const struct calls *)b)->caller;

	return ORDER(x, y);
}

/* The blocks that the job's own code frees after a call; 0 if a backward pass follows. */
static uint64_t freed_after(const struct numbering *n, size_t i)
{
	uint64_t freed = 0;

	for (i++; i < n->count && !is_forward(n->list[i].activity); i++) {
		if (is_backward(n->list[i].activity))
			return 0;
		if (n->list[i].activity == ACTIVITY_MAIN)
			freed += n->list[i].frees;
	}
	return freed;
}

/* Do the calls leave no blocks for a backward pass? */
static int is_evaluation(const struct calls *c)
{
	return c->allocs >= CALL_ALLOCS * c->spans &&
	       (c->left <= CALL_LEAVES * c->spans || c->freed > c->left / 2);
}

static size_t calls_of(const struct numbering *n, struct calls *calls)
{
	size_t found = 0, kept = 0;

	for (size_t i = 0; i < n->count; i++)
		if (is_forward(n->list[i].activity)) {
			const struct span *s = &n->list[i];

			calls[found++] =
				(struct calls){ s->caller, 1, s->allocs,
						s->allocs > s->frees ? s->allocs - s->frees : 0,
						freed_after(n, i) };
		}
	if (found)
		qsort(calls, found, sizeof(*calls), by_caller);
	for (size_t i = 0; i < found; i++) {
		if (!kept || calls[kept - 1].caller != calls[i].caller) {
			calls[kept++] = calls[i];
			continue;
		}
		calls[kept - 1].spans++;
		calls[kept - 1].allocs += calls[i].allocs;
		calls[kept - 1].left += calls[i].left;
		calls[kept - 1].freed += calls[i].freed;
	}
	return kept;
}

/*
 * The frames do not show torch.no_grad() as a context manager. Such calls of the model leave no
 * blocks for a backward pass, or blocks that none uses, while the calls from another line do.
 */
static void find_evaluation(struct numbering *n)
{
	struct calls *calls = xcalloc(n->count, sizeof(*calls)), key = { 0 }, *found;
	size_t count = calls_of(n, calls);
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++)
		if (!is_evaluation(&calls[i]) && calls[i].left / calls[i].spans > most)
			most = calls[i].left / calls[i].spans;
	for (size_t i = 0; i < n->count; i++) {
		struct span *s = &n->list[i];

		key.caller = s->caller;
		if (!is_forward(s->activity) || most <= CALL_LEAVES)
			continue;
		found = bsearch(&key, calls, count, sizeof(*calls), by_caller);
		if (found && is_evaluation(found))
			s->activity = ACTIVITY_EVALUATION;
	}
	free(calls);
}

/* Can this span separate two micro-batches? */
static int is_between(const struct numbering *n, size_t i)
{
	const struct span *s = &n->list[i];

	return is_forward(s->activity) ||
	       (!n->has_model && s->activity == ACTIVITY_MAIN && s->allocs);
}

/* Sets `next` of each span, from the last to the first. */
static void find_next(struct numbering *n)
{
	uint8_t next = ACTIVITY_UNKNOWN;

	for (size_t i = n->count; i-- > 0;) {
		uint8_t a = n->list[i].activity;

		n->list[i].next = next;
		if (a != ACTIVITY_UNKNOWN && a != ACTIVITY_MAIN && a != ACTIVITY_ZERO_GRAD)
			next = a;
	}
}

/* Does another backward pass begin with this span? `forward`: a forward pass lies between it and
 * the last one. */
static int is_another(const struct numbering *n, size_t i, int forward)
{
	return is_backward(n->list[i].activity) && forward;
}

/* Counts the backward passes, and notes those after which the optimizer allocates or frees, or
 * zero_grad() frees. */
static void find_backwards(struct numbering *n)
{
	int forward = 1;

	for (size_t i = 0; i < n->count; i++)
		n->has_model |= is_forward(n->list[i].activity);
	n->ends = xcalloc(n->count, 1);
	for (size_t i = 0; i < n->count; i++) {
		uint8_t a = n->list[i].activity;

		if (is_another(n, i, forward))
			n->backwards++;
		forward = is_backward(a) ? 0 : forward || is_between(n, i);
		if (n->backwards && (a == ACTIVITY_OPTIMIZER || a == ACTIVITY_ZERO_GRAD))
			n->ends[n->backwards - 1] = FOLLOWED_BY_OPTIMIZER;
	}
}

/*
 * An optimizer that works in place shows when it allocates its states, and not again. From then on
 * a step has as many backward passes as the first one had. The same holds for a run of backward
 * passes in the middle, if it is a multiple of that, and long.
 */
static void end_by_count(struct numbering *n)
{
	size_t first = 0, from;

	while (first < n->backwards && !n->ends[first])
		first++;
	/* The optimizer never shows: each backward pass is a step. */
	if (first == n->backwards)
		first = 0;
	from = first == 0 && n->backwards && !n->ends[0] ? 0 : first + 1;
	for (size_t i = from, upto; i < n->backwards; i = upto + 1) {
		size_t each = first + 1, length;

		for (upto = i; upto < n->backwards && !n->ends[upto]; upto++)
			;
		length = upto - i + (upto < n->backwards);
		if (upto < n->backwards && (length < 3 * each || length % each))
			continue;
		for (size_t k = i + each - 1; k < upto; k += each)
			n->ends[k] = ENDS_BY_COUNT;
	}
}

/* Does the job's own code allocate the inputs of a step here, not a part of the model? */
static int is_input(const struct numbering *n, size_t i)
{
	uint32_t flags = tables_stack_flags(n->tables, n->list[i].stack);
	enum block_hint hint = stack_hint(flags);

	return n->list[i].activity == ACTIVITY_MAIN && !(flags & STACK_INIT) &&
	       (hint == HINT_NOTHING || hint == HINT_INPUTS);
}

/* Step 1 begins with its inputs, directly before the first forward pass of training. */
static void find_first(struct numbering *n)
{
	size_t i = 0;

	while (i < n->count && !is_forward(n->list[i].activity) &&
	       !is_backward(n->list[i].activity))
		i++;
	n->first = i;
	if (i == n->count)
		return;
	while (n->first && is_input(n, n->first - 1))
		n->first--;
	while (n->first < i && !n->list[n->first].allocs)
		n->first++;
}

/* The phase of the job's own code. After a complete step, code that does not begin the next one
 * only cleans up: it belongs to the phase before. */
static enum phase phase_of_main(uint8_t next, int backward_seen, int complete, enum phase before)
{
	if (complete && next != ACTIVITY_EVALUATION)
		return before;
	switch (next) {
	case ACTIVITY_MODEL:
		return PHASE_FORWARD;
	case ACTIVITY_EVALUATION:
		return PHASE_EVALUATION;
	case ACTIVITY_BACKWARD:
	case ACTIVITY_RECOMPUTE:
		return PHASE_FORWARD;
	case ACTIVITY_OPTIMIZER:
		return backward_seen ? PHASE_OPTIMIZER : PHASE_FORWARD;
	}
	return before;
}

static enum phase phase_of(const struct numbering *n, size_t i, int backward_seen, int complete,
			   enum phase before)
{
	switch (n->list[i].activity) {
	case ACTIVITY_MODEL:
		return PHASE_FORWARD;
	case ACTIVITY_EVALUATION:
		return PHASE_EVALUATION;
	case ACTIVITY_BACKWARD:
	case ACTIVITY_RECOMPUTE:
		return PHASE_BACKWARD;
	case ACTIVITY_OPTIMIZER:
		return PHASE_OPTIMIZER;
	case ACTIVITY_ZERO_GRAD:
		return backward_seen ? PHASE_OPTIMIZER : PHASE_FORWARD;
	case ACTIVITY_SAVING:
	case ACTIVITY_LOADING:
		return PHASE_CHECKPOINT;
	}
	return phase_of_main(n->list[i].next, backward_seen, complete, before);
}

/* Does the next step begin with this span, after a complete one? `optimizer`: it was seen. */
static int begins(const struct numbering *n, size_t i, int optimizer)
{
	uint8_t a = n->list[i].activity, next = n->list[i].next;

	if (a == ACTIVITY_MAIN && n->list[i].allocs)
		return is_forward(next) || ((optimizer || !n->has_model) && is_backward(next));
	return is_forward(a) || (optimizer && is_backward(a));
}

static void number(struct numbering *n)
{
	enum phase before = PHASE_SETUP;
	int backward_seen = 0, complete = 0, forward = 1, optimizer = 0;
	size_t backwards = 0;
	uint32_t step = 1;

	for (size_t i = 0; i < n->count; i++) {
		struct span *s = &n->list[i];

		if (s->activity == ACTIVITY_GAP)
			step = 0;
		if (i >= n->first && complete && begins(n, i, optimizer)) {
			step += step != 0;
			backward_seen = complete = optimizer = 0;
			before = PHASE_FORWARD;
		}
		backwards += (size_t)is_another(n, i, forward);
		forward = is_backward(s->activity) ? 0 : forward || is_between(n, i);
		backward_seen |= i >= n->first && is_backward(s->activity);
		optimizer |= backward_seen && (s->activity == ACTIVITY_OPTIMIZER ||
					       s->activity == ACTIVITY_ZERO_GRAD);
		complete |= optimizer ||
			    (backward_seen && backwards && n->ends[backwards - 1] == ENDS_BY_COUNT);
		s->step = step;
		s->phase = (uint8_t)phase_of(n, i, backward_seen, complete, before);
		if (i < n->first && s->phase != PHASE_EVALUATION)
			s->phase = PHASE_SETUP;
		before = (enum phase)s->phase;
	}
}

void steps_number(struct spans *s, const struct tables *t)
{
	struct numbering n = { .list = s->list, .count = s->count, .tables = t };

	if (!n.count)
		return;
	find_evaluation(&n);
	find_backwards(&n);
	end_by_count(&n);
	find_first(&n);
	find_next(&n);
	number(&n);
	free(n.ends);
}

enum phase_part steps_part(const struct span *s, uint32_t stack_flags)
{
	if (!s)
		return PART_NONE;
	if (s->activity == ACTIVITY_SAVING)
		return PART_SAVING;
	if (s->activity == ACTIVITY_LOADING)
		return PART_LOADING;
	if (s->activity == ACTIVITY_RECOMPUTE)
		return PART_RECOMPUTE;
	if (s->phase == PHASE_OPTIMIZER && stack_flags & STACK_CLIPPING)
		return PART_CLIPPING;
	if (s->phase == PHASE_FORWARD && stack_flags & STACK_LOSS)
		return PART_LOSS;
	return PART_NONE;
}
