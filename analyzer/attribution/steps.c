#include "attribution/steps.h"

#include "attribution/attribution.h"
#include "attribution/evaluation.h"
#include "attribution/rounds.h"

#include <stdlib.h>

struct numbering {
	struct span *list;
	size_t count;
	const struct tables *tables;
	int has_model;         /* some span is a forward pass */
	int ended_badly;       /* as in struct spans */
	size_t first;          /* the span with which step 1 begins; `count`: there is none */
	size_t first_call;     /* the span with which the first call of the model begins */
	uint32_t first_mark;   /* of the first span that the job marked as the begin of a step; 0 */
	uint32_t before_marks; /* steps before that: 1 if the model was called, else 0 */
	struct turns turns;
};

/* Can this span separate two micro-batches? */
static int is_between(const struct numbering *n, size_t i)
{
	const struct span *s = &n->list[i];

	return activity_is_forward(s->activity) ||
	       (!n->has_model && s->activity == ACTIVITY_MAIN && s->allocs);
}

/* The span with which the trace ends, if a request of the job's own code failed in it, and the job
 * ended because of that. Else the number of spans. */
static size_t failed_last(const struct numbering *n)
{
	size_t i = n->ended_badly ? n->count : 0;

	while (i-- > 0)
		if (n->list[i].allocs)
			return n->list[i].failed && n->list[i].activity == ACTIVITY_MAIN ? i
											 : n->count;
	return n->count;
}

/*
 * What that request would have been for, if it is behind a whole step: the input of the next one,
 * whose line has made what the first forward pass takes; or, if the optimizer has stepped and the
 * line has made nothing before, that, or an evaluation. What another line makes behind a backward
 * pass may be a state of an optimizer of the job's own.
 */
static enum activity after_last(const struct numbering *n, size_t last)
{
	int passes = 0, is_input = 0, is_known = 0, stepped = 0;
	uint32_t flags;

	for (size_t i = 0; i < last; i++) {
		const struct span *s = &n->list[i];

		if (activity_is_backward(s->activity)) {
			passes = 1;
			stepped = 0;
		}
		stepped |= passes && s->activity == ACTIVITY_OPTIMIZER;
		if (s->activity == ACTIVITY_MAIN && s->allocs && s->stack == n->list[last].stack)
			*(passes ? &is_known : &is_input) = 1;
	}
	if (!passes || !(is_input || (stepped && !is_known)))
		return ACTIVITY_UNKNOWN;
	flags = tables_stack_flags(n->tables, n->list[last].stack);
	return !is_input && flags & (STACK_NO_GRAD | STACK_EVALUATION) ? ACTIVITY_EVALUATION
								       : ACTIVITY_MODEL;
}

/* Sets `next` of each span, from the last to the first. */
static void find_next(struct numbering *n)
{
	size_t last = failed_last(n);
	uint8_t next = (uint8_t)(last < n->count ? after_last(n, last) : ACTIVITY_UNKNOWN);

	for (size_t i = n->count; i-- > 0;) {
		uint8_t a = n->list[i].activity;

		n->list[i].next = next;
		if (a != ACTIVITY_UNKNOWN && a != ACTIVITY_MAIN && a != ACTIVITY_ZERO_GRAD)
			next = n->list[i].leads ? ACTIVITY_MODEL : a;
	}
}

/* Does another turn's backward pass begin with this span? `forward`: a forward pass lies between it
 * and the last one. */
static int is_another(const struct numbering *n, size_t i, int forward)
{
	return activity_is_backward(n->list[i].activity) && forward;
}

/* Is the model called with weights that the job's own code allocated and updates itself? */
static int is_inner(const struct numbering *n, const struct span *s)
{
	return activity_is_forward(s->activity) &&
	       (tables_stack_info(n->tables, s->stack)->tags & TAGGED(OWN_WEIGHTS)) != 0;
}

/* Writes the list of turns, each with the lines that step the optimizer after it. */
static void find_turns(struct numbering *n)
{
	struct turn next = { 0 }, *last = NULL;
	int forward = 1;

	for (size_t i = 0; i < n->count; i++) {
		const struct span *s = &n->list[i];

		if (activity_is_forward(s->activity) && !next.forward) {
			next.forward = s->caller;
			next.in_optimizer = (tables_stack_flags(n->tables, s->stack) &
					     (STACK_OPTIMIZER | STACK_CLOSURE)) != 0;
		}
		next.is_inner |= is_inner(n, s);
		if (is_another(n, i, forward)) {
			next.has_backward = 1;
			turns_add(&n->turns, &next);
			next = (struct turn){ 0 };
		}
		last = n->turns.count ? &n->turns.list[n->turns.count - 1] : NULL;
		forward = activity_is_backward(s->activity) ? 0 : forward || is_between(n, i);
		if (last && s->activity == ACTIVITY_OPTIMIZER)
			turns_link(&n->turns, s->caller);
		if (last &&
		    (s->activity == ACTIVITY_OPTIMIZER || s->activity == ACTIVITY_ZERO_GRAD))
			last->shows = 1;
		if (last && !forward &&
		    (activity_is_backward(s->activity) || s->activity == ACTIVITY_OPTIMIZER))
			last->last = i;
	}
	if (next.forward)
		turns_add(&n->turns, &next);
}

/* Does the job's own code allocate the inputs of a step here, not a part of the model? */
static int is_input(const struct numbering *n, size_t i)
{
	uint32_t flags = tables_stack_flags(n->tables, n->list[i].stack);
	enum block_hint hint = stack_hint(flags);

	return n->list[i].activity == ACTIVITY_MAIN && !(flags & STACK_INIT) &&
	       (hint == HINT_NOTHING || hint == HINT_INPUTS);
}

/* A call of the model begins with its inputs, directly before the span `i`. */
static size_t inputs_before(const struct numbering *n, size_t i)
{
	size_t first = i;

	while (first && is_input(n, first - 1))
		first--;
	while (first < i && !n->list[first].allocs)
		first++;
	return first;
}

/* Step 1 begins with the first forward pass of training; an evaluation may come before it. */
static void find_first(struct numbering *n)
{
	size_t i = 0;

	while (i < n->count && !activity_is_forward(n->list[i].activity) &&
	       n->list[i].activity != ACTIVITY_EVALUATION)
		i++;
	n->first_call = inputs_before(n, i);
	i = 0;

	while (i < n->count && !n->list[i].leads && !activity_is_forward(n->list[i].activity) &&
	       !activity_is_backward(n->list[i].activity))
		i++;
	n->first = i == n->count ? i : inputs_before(n, i);
}

/* Do the job's own marks number the steps? */
static void find_marks(struct numbering *n)
{
	size_t i = 0;
	int infers = 0;

	for (; i < n->count && !n->list[i].step; i++)
		infers |= n->list[i].activity == ACTIVITY_EVALUATION;
	if (i == n->count)
		return;
	n->first_mark = n->list[i].step;
	n->before_marks = n->first < i || (infers && n->first == n->count);
	if (!n->before_marks)
		n->first = i;
}

/* The phase of the job's own code. After a complete step, code that does not begin the next one
 * cleans up, and belongs to the phase before; or it allocates, and is the job's own optimizer. */
static enum phase phase_of_main(const struct span *s, int backward_seen, int complete,
				enum phase before)
{
	uint8_t next = s->next;

	if (complete && next != ACTIVITY_EVALUATION)
		return before == PHASE_BACKWARD && s->allocs ? PHASE_OPTIMIZER : before;
	switch (next) {
	case ACTIVITY_MODEL:
		return PHASE_FORWARD;
	case ACTIVITY_EVALUATION:
		/* Between a forward pass and its backward pass, the job works on the results. */
		return before == PHASE_FORWARD ? PHASE_FORWARD : PHASE_EVALUATION;
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
	return phase_of_main(&n->list[i], backward_seen, complete, before);
}

/* Does the next step begin with this span, after a complete one? */
static int begins(const struct numbering *n, size_t i)
{
	uint8_t a = n->list[i].activity, next = n->list[i].next;

	if (a == ACTIVITY_MAIN && n->list[i].allocs && !n->list[i].is_closed)
		return activity_is_forward(next) || activity_is_backward(next);
	return activity_is_forward(a) || activity_is_backward(a) || n->list[i].leads;
}

static void number(struct numbering *n)
{
	enum phase before = PHASE_SETUP;
	int backward_seen = 0, complete = 0, forward = 1;
	size_t turns = 0;
	uint32_t step =
		n->first_mark + n->before_marks > 1 ? n->first_mark + n->before_marks - 1 : 1;

	for (size_t i = 0; i < n->count; i++) {
		struct span *s = &n->list[i];
		const struct turn *turn = turns ? &n->turns.list[turns - 1] : NULL;

		if (s->activity == ACTIVITY_GAP)
			step = 0;
		complete = backward_seen && turn && turn->ends && i > turn->last;
		/* the job's mark stands where the step's number will be */
		if (n->first_mark ? s->step != 0 : i >= n->first && complete && begins(n, i)) {
			step = s->step ? s->step + n->before_marks : step + (step != 0);
			backward_seen = complete = 0;
			before = PHASE_FORWARD;
		}
		turns += (size_t)is_another(n, i, forward);
		forward = activity_is_backward(s->activity) ? 0 : forward || is_between(n, i);
		backward_seen |= i >= n->first && activity_is_backward(s->activity);
		s->step = step;
		s->phase = (uint8_t)phase_of(n, i, backward_seen, complete, before);
		if (i < n->first && (s->phase != PHASE_EVALUATION || i < n->first_call))
			s->phase = PHASE_SETUP;
		before = (enum phase)s->phase;
	}
}

void steps_number(struct spans *s, const struct tables *t)
{
	struct numbering n = { .list = s->list,
			       .count = s->count,
			       .tables = t,
			       .first = s->count,
			       .ended_badly = s->ended_badly };

	if (!n.count)
		return;
	evaluation_find(s);
	n.has_model = spans_have(s, ACTIVITY_MODEL);
	if (n.has_model || spans_have(s, ACTIVITY_EVALUATION) || spans_have(s, ACTIVITY_BACKWARD) ||
	    spans_have(s, ACTIVITY_RECOMPUTE)) {
		find_turns(&n);
		rounds_find(&n.turns);
		find_first(&n);
	}
	if (s->is_marked)
		find_marks(&n);
	find_next(&n);
	number(&n);
	turns_release(&n.turns);
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
