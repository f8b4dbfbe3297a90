#include "attribution/evaluation.h"
#include "util/order.h"

#include <stdlib.h>

/* A call of a model allocates more blocks than this. */
#define CALL_ALLOCS 10

/* The calls of a model from one line. */
struct calls {
	uint32_t caller;
	uint64_t spans, allocs, left; /* left: blocks still live after the call */
	uint64_t freed;               /* of them, freed next by the job's own code */
	/* Calls in a row, without a backward pass between: their number, and how many come after
	 * the line `previous` and before the line `next`, the first two that did. */
	uint64_t rows, after, before;
	const struct calls *previous, *next;
	int is_known;        /* the frames show that it is evaluation */
	int is_used;         /* the calls have a part in the forward passes of training */
	int fails;           /* a request failed in a call */
	size_t first, again; /* the first span, and the first one behind a backward pass that
			      * followed it; 0: none */
	size_t backwards;    /* spans of backward passes before the first one */
	/* Backward passes before which the line was called: their number and the last one, and the
	 * line that was called last before that. */
	size_t passes, last_pass;
	const struct calls *direct;
	int trains; /* a backward pass follows directly on some call */
};

struct lines {
	struct span *list;
	size_t count;
	struct calls *calls;
	size_t call_count;
	size_t whole; /* from this span on, one whole step has shown the lines that it has */
};

static int by_caller(const void *a, const void *b)
{
	uint32_t x = ((const struct calls *)a)->caller, y = ((const struct calls *)b)->caller;

	return ORDER(x, y);
}

static int by_caller_and_time(const void *a, const void *b)
{
	const struct calls *x = a, *y = b;

	return x->caller != y->caller ? by_caller(a, b) : ORDER(x->first, y->first);
}

static int is_call(const struct span *s)
{
	return activity_is_forward(s->activity) || s->activity == ACTIVITY_EVALUATION;
}

static struct calls *calls_from(const struct lines *l, const struct span *s)
{
	struct calls key = { .caller = s->caller };

	return bsearch(&key, l->calls, l->call_count, sizeof(*l->calls), by_caller);
}

/* The blocks that the job's own code frees after a call; 0 if a backward pass follows. */
static uint64_t freed_after(const struct lines *l, size_t i)
{
	uint64_t freed = 0;

	for (i++; i < l->count && !activity_is_forward(l->list[i].activity); i++) {
		if (activity_is_backward(l->list[i].activity))
			return 0;
		if (l->list[i].activity == ACTIVITY_MAIN)
			freed += l->list[i].frees;
	}
	return freed;
}

static struct calls call_of(const struct lines *l, size_t i)
{
	const struct span *s = &l->list[i];

	return (struct calls){
		.caller = s->caller,
		.first = i,
		.spans = 1,
		.fails = s->failed,
		.allocs = s->allocs,
		.left = s->allocs > s->frees ? s->allocs - s->frees : 0,
		.freed = s->failed ? 0 : freed_after(l, i),
		.is_known = s->activity == ACTIVITY_EVALUATION,
	};
}

/* Adds a call to those of its line. */
static void add_call(struct calls *to, const struct calls *c)
{
	if (!to->again && c->backwards > to->backwards)
		to->again = c->first;
	to->fails |= c->fails;
	to->spans += c->spans;
	to->allocs += c->allocs;
	to->left += c->left;
	to->freed += c->freed;
}

static void find_lines(struct lines *l)
{
	size_t found = 0, backwards = 0;

	for (size_t i = 0; i < l->count; i++) {
		backwards += activity_is_backward(l->list[i].activity) != 0;
		if (is_call(&l->list[i])) {
			l->calls[found] = call_of(l, i);
			l->calls[found++].backwards = backwards;
		}
	}
	if (found)
		qsort(l->calls, found, sizeof(*l->calls), by_caller_and_time);
	for (size_t i = 0; i < found; i++) {
		struct calls *last = l->call_count ? &l->calls[l->call_count - 1] : NULL;

		if (!last || last->caller != l->calls[i].caller)
			l->calls[l->call_count++] = l->calls[i];
		else
			add_call(last, &l->calls[i]);
	}
	l->whole = l->count;
	for (size_t i = 0; i < l->call_count; i++)
		if (l->calls[i].again && l->calls[i].again < l->whole)
			l->whole = l->calls[i].again;
}

/* Notes the calls before each backward pass, from the span `from` on: `direct` is the last line. */
static void note_pass(struct lines *l, size_t from, size_t to, size_t number)
{
	struct calls *direct = NULL;

	for (size_t i = to; i-- > from;) {
		struct calls *c = is_call(&l->list[i]) ? calls_from(l, &l->list[i]) : NULL;

		if (!c || c->last_pass == number)
			continue;
		direct = direct ? direct : c;
		c->last_pass = number;
		c->passes++;
		c->direct = direct;
	}
}

/* Finds the lines that have a part in the forward pass: a loss may be called from another line. An
 * evaluation comes before few of the backward passes. */
static void find_used(struct lines *l)
{
	size_t from = 0, passes = 0;

	for (size_t i = 0; i < l->count; i++) {
		if (!activity_is_backward(l->list[i].activity))
			continue;
		note_pass(l, from, i, ++passes);
		from = i + 1;
	}
	for (size_t i = 0; i < l->call_count; i++) {
		struct calls *c = &l->calls[i];

		c->is_used = c->direct && 2 * c->passes >= c->direct->passes;
	}
}

/* Notes that calls of `second` come after calls of `first`. */
static void follow(struct calls *first, struct calls *second)
{
	if (!first->next)
		first->next = second;
	if (!second->previous)
		second->previous = first;
	first->before += first->next == second;
	second->after += second->previous == first;
}

static void find_order(struct lines *l)
{
	struct calls *last = NULL; /* since the last backward pass */

	for (size_t i = 0; i < l->count; i++) {
		struct calls *now = is_call(&l->list[i]) ? calls_from(l, &l->list[i]) : NULL;

		if (activity_is_backward(l->list[i].activity)) {
			if (last)
				last->trains = 1;
			last = NULL;
		}
		if (!now || now == last)
			continue;
		now->rows++;
		if (last)
			follow(last, now);
		last = now;
	}
}

/* Does each row of calls come before calls from one other line, and before each of those? The last
 * row may have been interrupted. */
static int leads(const struct calls *c)
{
	const struct calls *next = c->next;

	return next && c->before + 1 >= c->rows && next->previous == c && next->rows > 1 &&
	       next->after == next->rows;
}

/* Do the calls leave no blocks for a backward pass? Those from a line that had not called the model
 * in a whole step are rather an evaluation, if the job failed there before a backward pass. */
static int is_evaluation(const struct lines *l, const struct calls *c)
{
	return (c->fails && c->first > l->whole && !c->is_used) ||
	       (c->allocs >= CALL_ALLOCS * c->spans &&
		(c->left <= CALL_LEAVES * c->spans ||
		 (c->freed > c->left / 2 && !leads(c) && !c->trains)));
}

/* Do such calls of the model leave no blocks for a backward pass, or blocks that none uses, while
 * the calls from another line do? */
void evaluation_find(struct spans *spans)
{
	struct lines l = { .list = spans->list, .count = spans->count };
	uint64_t most = 0;

	if (!spans_have(spans, ACTIVITY_MODEL) && !spans_have(spans, ACTIVITY_EVALUATION))
		return;
	l.calls = xcalloc(l.count, sizeof(*l.calls));
	find_lines(&l);
	find_used(&l);
	find_order(&l);
	spans->activities &= ~(1u << ACTIVITY_MODEL);
	for (size_t i = 0; i < l.call_count; i++)
		if (!l.calls[i].is_known && !is_evaluation(&l, &l.calls[i]) &&
		    l.calls[i].left / l.calls[i].spans > most)
			most = l.calls[i].left / l.calls[i].spans;
	for (size_t i = 0; i < l.count; i++) {
		struct span *s = &l.list[i];
		const struct calls *c = is_call(s) ? calls_from(&l, s) : NULL;

		if (!c)
			continue;
		if (activity_is_forward(s->activity) && most > CALL_LEAVES && is_evaluation(&l, c))
			s->activity = ACTIVITY_EVALUATION;
		spans->activities |= 1u << s->activity;
		s->leads = s->activity == ACTIVITY_EVALUATION && leads(c) && !c->next->is_known &&
			   !is_evaluation(&l, c->next);
	}
	free(l.calls);
}
