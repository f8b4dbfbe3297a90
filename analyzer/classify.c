#include "classify.h"

#include "trace.h"

#include <stdlib.h>
#include <string.h>

/*
 * Kinds that only the line tells apart, which differs from version to version. Their order does not: of the lines that made live blocks, the
 * first makes `first`, each later one `later`; a single line makes `alone`.
 */
static const struct {
	enum makes kind, first, later, alone;
} by_line[] = {
	/* Parameters come first; then what .grad is moved to, which is rare, then buffers. */
	{ MAKES_APPLY, MAKES_PARAMETERS, MAKES_BUFFERS, MAKES_PARAMETERS },
	{ MAKES_NORM, MAKES_PARAMETERS, MAKES_BUFFERS, MAKES_PARAMETERS },
	/* Without the distributed optimizer there are only gradients. */
	{ MAKES_PARAM_AND_GRAD, MAKES_PARAMETERS, MAKES_GRADIENTS, MAKES_GRADIENTS },
	{ MAKES_IPG_AND_GRADIENTS, MAKES_COMMUNICATION, MAKES_GRADIENTS, MAKES_GRADIENTS },
};

struct lines {
	uint32_t least, most;
};

struct classifier {
	const struct device *device;
	const struct tables *tables;
	uint64_t end_ns;
	struct lines lines[ARRAY_SIZE(by_line)];
	bytes workspace; /* cuBLAS's, as the environment asks for it; 0 unknown */
};

/* What is known of one block. */
struct facts {
	const struct span *born, *died; /* NULL: not known; not dead */
	uint32_t born_flags, died_flags;
	enum makes makes;
	enum activity died_by;
	size_t backward_end; /* the span behind the backward pass that follows its birth, or is it */
	int by_autograd;
	bytes bytes;
};

static int is_backward(const struct span *s)
{
	return s->phase == PHASE_BACKWARD;
}

/* Index of a span; a block's are in the list. */
static size_t at(const struct classifier *c, const struct span *s)
{
	return (size_t)(s - c->device->spans.list);
}

/* The first span after the next backward pass at or after `s`; the list's length if there is none. */
static size_t after_backward(const struct classifier *c, const struct span *s)
{
	const struct spans *list = &c->device->spans;
	size_t i = at(c, s);

	while (i < list->count && !is_backward(&list->list[i]))
		i++;
	while (i < list->count && is_backward(&list->list[i]))
		i++;
	return i;
}

static void find_lines(struct classifier *c, const struct lives *l)
{
	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		c->lines[k] = (struct lines){ UINT32_MAX, 0 };
	for (size_t i = 0; i < l->count; i++) {
		const struct place_info *p = tables_place_info(c->tables, l->list[i].born.place);

		for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
			if (place_makes(p->flags) == by_line[k].kind) {
				struct lines *seen = &c->lines[k];

				seen->least = p->line < seen->least ? p->line : seen->least;
				seen->most = p->line > seen->most ? p->line : seen->most;
			}
	}
}

static enum makes makes_of(const struct classifier *c, const struct place_info *p)
{
	enum makes m = place_makes(p->flags);

	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		if (m == by_line[k].kind)
			return c->lines[k].least == c->lines[k].most ? by_line[k].alone
			       : p->line > c->lines[k].least         ? by_line[k].later
								     : by_line[k].first;
	return m;
}

static struct facts facts_of(const struct classifier *c, const struct life *l)
{
	const struct spans *spans = &c->device->spans;
	const struct tables *t = c->tables;
	struct facts f = {
		.born = spans_at(spans, l->born.time_ns),
		.born_flags = tables_place_flags(t, l->born.place),
		.by_autograd = t->thread_flags[l->born.thread] & THREAD_AUTOGRAD,
		.bytes = l->born.bytes,
	};

	f.makes = makes_of(c, tables_place_info(t, l->born.place));
	if (f.born)
		f.backward_end = after_backward(c, f.born);
	if (l->died_ns == LIFE_OPEN)
		return f;
	f.died = spans_at(spans, l->died_ns);
	f.died_flags = tables_place_flags(t, l->died_place);
	f.died_by = activity_of(t->thread_flags[l->died_thread], f.died_flags);
	return f;
}

/* What the place says, where nothing contradicts. */
static enum category said(enum makes m, enum category otherwise)
{
	switch (m) {
	case MAKES_PARAMETERS:
		return CATEGORY_PARAMETERS;
	case MAKES_BUFFERS:
		return CATEGORY_BUFFERS;
	case MAKES_STATES:
		return CATEGORY_OPTIMIZER_STATES;
	case MAKES_INPUTS:
		return CATEGORY_INPUTS;
	case MAKES_WORKSPACES:
		return CATEGORY_WORKSPACES;
	case MAKES_COMMUNICATION:
	case MAKES_BUCKETS:
	case MAKES_REDUCED:
	case MAKES_RECEIVED:
		return CATEGORY_COMMUNICATION;
	case MAKES_GRADIENTS:
		return CATEGORY_GRADIENTS;
	default:
		return otherwise;
	}
}

/* Did it live on when the backward pass after its birth was over? */
static int outlives_backward(const struct classifier *c, const struct facts *f)
{
	return f->backward_end < c->device->spans.count &&
	       (!f->died || at(c, f->died) >= f->backward_end);
}

/* Does the trace go on for as long as it takes to see whether it lives on? */
static int is_kept(const struct classifier *c, const struct facts *f)
{
	const struct spans *s = &c->device->spans;
	uint32_t step = f->died ? f->died->step : s->list[s->count - 1].step;

	return step > f->born->step + 1 && (!f->died || f->died->step > f->born->step + 1);
}

static enum category of_setup(const struct facts *f)
{
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	if (f->born_flags & (PLACE_INIT | PLACE_LOADING) || !(f->born_flags & PLACE_FRAMES))
		return CATEGORY_PARAMETERS;
	return CATEGORY_OTHER;
}

/* cuBLAS takes its workspace from the allocator when it is first used, and keeps it. */
static int is_workspace(const struct classifier *c, const struct facts *f)
{
	return f->bytes == c->workspace && f->born->step == 1 &&
	       (!f->died || f->died->step > 1 || f->died == f->born);
}

static enum category of_forward(const struct classifier *c, const struct facts *f)
{
	int is_input = f->born->activity == ACTIVITY_MAIN && f->born->next != ACTIVITY_BACKWARD &&
		       f->born->next != ACTIVITY_RECOMPUTE;

	if (f->makes == MAKES_RECEIVED)
		return f->born->next == ACTIVITY_MODEL ? CATEGORY_ACTIVATIONS
						       : CATEGORY_COMMUNICATION;
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	if (is_workspace(c, f) && f->born_flags & PLACE_MODULE)
		return CATEGORY_WORKSPACES;
	if (is_input)
		return CATEGORY_INPUTS;
	if (!f->died || is_backward(f->died))
		return is_kept(c, f) ? CATEGORY_BUFFERS : CATEGORY_ACTIVATIONS;
	if (outlives_backward(c, f))
		return is_kept(c, f) ? CATEGORY_BUFFERS : CATEGORY_TEMPORARIES;
	return CATEGORY_TEMPORARIES;
}

static enum category of_evaluation(const struct facts *f)
{
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	return f->born->activity == ACTIVITY_MAIN ? CATEGORY_INPUTS : CATEGORY_TEMPORARIES;
}

static enum category of_backward(const struct classifier *c, const struct facts *f)
{
	if (f->makes == MAKES_REDUCED)
		return outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_COMMUNICATION;
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	if (is_workspace(c, f) && !f->died)
		return CATEGORY_WORKSPACES;
	if (f->born->activity == ACTIVITY_RECOMPUTE && !(f->died && f->died == f->born))
		return CATEGORY_ACTIVATIONS;
	return outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_TEMPORARIES;
}

static enum category of_optimizer(const struct facts *f)
{
	int in_the_step = f->died && f->died->phase == PHASE_OPTIMIZER &&
			  f->died->step == f->born->step && f->died_flags & PLACE_OPTIMIZER;

	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	if (!f->died || in_the_step)
		return f->died ? CATEGORY_TEMPORARIES : CATEGORY_OPTIMIZER_STATES;
	return f->died->step > f->born->step + 1 || f->born_flags & PLACE_OPTIMIZER
		       ? CATEGORY_OPTIMIZER_STATES
		       : CATEGORY_TEMPORARIES;
}

static enum category category_of(const struct classifier *c, const struct facts *f)
{
	if (!f->born)
		return said(f->makes, CATEGORY_OTHER);
	switch ((enum phase)f->born->phase) {
	case PHASE_SETUP:
		return of_setup(f);
	case PHASE_FORWARD:
		return of_forward(c, f);
	case PHASE_EVALUATION:
		return of_evaluation(f);
	case PHASE_BACKWARD:
		return of_backward(c, f);
	case PHASE_OPTIMIZER:
		return of_optimizer(f);
	case PHASE_CHECKPOINT:
		return said(f->makes, CATEGORY_TEMPORARIES);
	default:
		return CATEGORY_OTHER;
	}
}

void classify(struct lives *l, const struct device *d, const struct tables *t, uint64_t end_ns)
{
	struct classifier c = { .device = d, .tables = t, .end_ns = end_ns };

	c.workspace = 33554432;
	find_lines(&c, l);
	for (size_t i = 0; i < l->count; i++) {
		struct facts f = facts_of(&c, &l->list[i]);

		l->list[i].category = (uint8_t)category_of(&c, &f);
	}
}
