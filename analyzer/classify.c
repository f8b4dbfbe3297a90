#include "classify.h"

#include "trace.h"

#include <stdlib.h>

/* Blocks of one place that were made over so many calls of the model are a collection, not what a step works on. */
#define MOST_INPUTS 8

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

/* The live blocks of a place. */
struct crowd {
	uint32_t blocks, last_step; /* the youngest one's */
	uint32_t first_call, last_call;
};

struct classifier {
	const struct device *device;
	const struct tables *tables;
	uint64_t end_ns;     /* nothing counts behind it */
	size_t spans;        /* up to there */
	struct crowd *crowds; /* of each place */
	uint32_t *calls;      /* of a model, before each span */
	int buckets_are_gradients; /* DDP's gradient_as_bucket_view */
	struct lines lines[ARRAY_SIZE(by_line)];
	bytes workspaces[3]; /* sizes that cuBLAS's can have; 0: none */
};

/* What is known of one block. */
struct facts {
	const struct span *born, *died; /* NULL: not known; not dead */
	uint32_t born_flags, died_flags;
	enum makes makes;
	enum activity died_by;
	size_t backward_end; /* the span behind the backward pass that follows its birth, or is it */
	struct crowd crowd; /* it is one of */
	int at_once;        /* it was the last that was made, and gone before the next was */
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

/* The first span after the next backward pass at or after `s`; as far as the spans count. */
static size_t after_backward(const struct classifier *c, const struct span *s)
{
	const struct spans *list = &c->device->spans;
	size_t i = at(c, s);

	while (i < c->spans && !is_backward(&list->list[i]))
		i++;
	while (i < c->spans && is_backward(&list->list[i]))
		i++;
	return i;
}

/* Where the backward pass leaves no gradients of its own, they live in the buckets. */
static void find_buckets(struct classifier *c, const struct lives *l)
{
	bytes buckets = 0;

	for (size_t i = 0; i < l->count; i++)
		if (place_makes(tables_place_flags(c->tables, l->list[i].born.place)) ==
		    MAKES_BUCKETS)
			buckets = bytes_add(buckets, l->list[i].born.bytes);
	c->buckets_are_gradients = c->spans && after_backward(c, c->device->spans.list) < c->spans &&
				   c->device->outlived < buckets / 2;
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

	if (m == MAKES_BUCKETS && c->buckets_are_gradients)
		return MAKES_GRADIENTS;
	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		if (m == by_line[k].kind)
			return c->lines[k].least == c->lines[k].most ? by_line[k].alone
			       : p->line > c->lines[k].least         ? by_line[k].later
								     : by_line[k].first;
	return m;
}

static uint32_t place_of(const struct classifier *c, const struct life *l)
{
	return l->born.place < c->tables->place_count ? l->born.place : MT_NO_PLACE;
}

static void count_calls(struct classifier *c)
{
	const struct spans *s = &c->device->spans;
	uint32_t n = 0;

	c->calls = xcalloc(s->count, sizeof(*c->calls));
	for (size_t i = 0; i < s->count; i++) {
		c->calls[i] = n;
		n += s->list[i].activity == ACTIVITY_MODEL ||
		     s->list[i].activity == ACTIVITY_EVALUATION;
	}
}

static void find_crowds(struct classifier *c, const struct lives *l)
{
	count_calls(c);
	c->crowds = xcalloc(c->tables->place_count, sizeof(*c->crowds));
	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = spans_at(&c->device->spans, l->list[i].born.time_ns);
		struct crowd *crowd = &c->crowds[place_of(c, &l->list[i])];
		uint32_t call = s ? c->calls[at(c, s)] : 0;

		if (!crowd->blocks || call < crowd->first_call)
			crowd->first_call = call;
		if (call > crowd->last_call)
			crowd->last_call = call;
		if (s && s->step > crowd->last_step)
			crowd->last_step = s->step;
		crowd->blocks++;
	}
}

static struct facts facts_of(const struct classifier *c, const struct life *l)
{
	const struct spans *spans = &c->device->spans;
	const struct tables *t = c->tables;
	struct facts f = {
		.born = spans_at(spans, l->born.time_ns),
		.born_flags = tables_place_flags(t, l->born.place),
		.at_once = l->at_once,
		.bytes = l->born.bytes,
	};

	f.makes = makes_of(c, tables_place_info(t, l->born.place));
	if (f.born) {
		f.backward_end = after_backward(c, f.born);
		f.crowd = c->crowds[place_of(c, l)];
	}
	/* What frees a block after the job's failure is the job's end. */
	if (l->died_ns > c->end_ns)
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
	return f->backward_end < c->spans &&
	       (!f->died || at(c, f->died) >= f->backward_end);
}

/* Is it seen to live for more than a step? */
static int lasts(const struct classifier *c, const struct facts *f)
{
	uint32_t step = f->died ? f->died->step : c->device->spans.list[c->spans - 1].step;

	return step > f->born->step + 1;
}

static enum category of_setup(const struct facts *f)
{
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	if (f->born_flags & (PLACE_INIT | PLACE_LOADING) || !(f->born_flags & PLACE_FRAMES))
		return CATEGORY_PARAMETERS;
	return CATEGORY_OTHER;
}

/*
 * PyTorch gives cuBLAS its workspace from the allocator: once for each thread and stream, to stay, or for each product anew.
 */
static int is_workspace(const struct classifier *c, const struct facts *f)
{
	int is_size = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->workspaces); i++)
		is_size |= c->workspaces[i] && f->bytes == c->workspaces[i];
	return is_size && (f->at_once || (!f->died && f->born->step == 1 && lasts(c, f)));
}

/* What the job makes itself: its inputs, unless it collects something from call to call of the model. */
static enum category of_main(const struct facts *f)
{
	return f->crowd.last_call - f->crowd.first_call >= MOST_INPUTS ? CATEGORY_OTHER
								       : CATEGORY_INPUTS;
}

/*
 * From a forward pass, and there for more than a step: made once, it is a module's, or an input. What is made again and again and stays is a
 * graph that was not let go, or the job's own collection.
 */
static enum category of_lasting(const struct facts *f, int is_input)
{
	if (is_input)
		return of_main(f);
	return f->born->step > 1 || f->crowd.last_step > 1 ? CATEGORY_ACTIVATIONS
							   : CATEGORY_BUFFERS;
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
	if (is_workspace(c, f))
		return CATEGORY_WORKSPACES;
	if (lasts(c, f))
		return of_lasting(f, is_input);
	if (is_input)
		return CATEGORY_INPUTS;
	if (!f->died || is_backward(f->died))
		return CATEGORY_ACTIVATIONS;
	/* A graph that no backward pass ever used. */
	if (f->died != f->born && f->backward_end > at(c, f->died) && f->born_flags & PLACE_MODULE)
		return CATEGORY_ACTIVATIONS;
	return CATEGORY_TEMPORARIES;
}

static enum category of_evaluation(const struct facts *f)
{
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	return f->born->activity == ACTIVITY_MAIN ? of_main(f) : CATEGORY_TEMPORARIES;
}

static enum category of_backward(const struct classifier *c, const struct facts *f)
{
	if (f->makes == MAKES_REDUCED)
		return outlives_backward(c, f) ? CATEGORY_GRADIENTS : CATEGORY_COMMUNICATION;
	if (f->makes)
		return said(f->makes, CATEGORY_OTHER);
	if (is_workspace(c, f))
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

/* ":4096:2:16:8" is 2 of 4096 KiB and 8 of 16 KiB; 0 if it makes no sense. */
static bytes workspace_config(struct str text)
{
	bytes sum = 0, pair[2] = { 0 };
	int n = -1;

	for (size_t i = 0; i < text.length; i++) {
		char ch = text.at[i];

		if (ch == ':') {
			n = (n + 1) % 2;
			if (!n)
				sum += pair[0] * pair[1];
			pair[n] = 0;
		} else if (n < 0 || ch < '0' || ch > '9' || pair[n] > 100000) {
			return 0;
		} else {
			pair[n] = pair[n] * 10 + (ch - '0');
		}
	}
	return n == 1 ? (sum + pair[0] * pair[1]) << 10 : 0;
}

/* PyTorch's own: 32 MiB on Hopper, else ":4096:2:16:8". */
static void find_workspaces(struct classifier *c)
{
	const struct meta *asked =
		tables_meta(c->tables, MT_META_ENV "CUBLAS_WORKSPACE_CONFIG");

	c->workspaces[0] = INT64_C(32) << 20;
	c->workspaces[1] = (INT64_C(4096) * 2 + 16 * 8) << 10;
	if (asked)
		c->workspaces[2] = workspace_config(asked->value);
}

/* Sizes of blocks of some categories, in order. */
struct sizes {
	bytes *list;
	size_t count;
};

static int by_size(const void *a, const void *b)
{
	bytes x = *(const bytes *)a, y = *(const bytes *)b;

	return (x > y) - (x < y);
}

static struct sizes sizes_of(const struct lives *l, unsigned categories)
{
	struct sizes s = { .list = xcalloc(l->count, sizeof(*s.list)) };

	for (size_t i = 0; i < l->count; i++)
		if (categories & 1u << l->list[i].category)
			s.list[s.count++] = l->list[i].born.bytes;
	if (s.count)
		qsort(s.list, s.count, sizeof(*s.list), by_size);
	return s;
}

/* How many are smaller than `size`? */
static size_t smaller(const struct sizes *s, bytes size)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle] < size)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many are of that size, or of half or twice of it: in another precision? */
static size_t alike(const struct sizes *s, bytes size)
{
	const bytes keys[] = { size, 2 * size, size / 2 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		n += smaller(s, keys[i] + 1) - smaller(s, keys[i]);
	return n;
}

/* Did only the place of birth, some object's constructor, make it a parameter? */
static int is_doubtful(const struct classifier *c, const struct life *l)
{
	const struct place_info *p = tables_place_info(c->tables, l->born.place);

	return l->category == CATEGORY_PARAMETERS && p->flags & PLACE_INIT &&
	       makes_of(c, p) == MAKES_NOTHING;
}

/*
 * A module makes its buffers where it makes its parameters. But only parameters are trained: where the optimizer's states and the gradients
 * are like the parameters that are sure, one without is a buffer.
 */
static void find_untrained(const struct classifier *c, struct lives *l)
{
	struct sizes trained =
		sizes_of(l, 1u << CATEGORY_OPTIMIZER_STATES | 1u << CATEGORY_GRADIENTS);
	struct sizes parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);
	bytes sure = 0, matched = 0;

	for (size_t i = 0; i < l->count; i++) {
		bytes size = l->list[i].born.bytes;

		if (l->list[i].category != CATEGORY_PARAMETERS || is_doubtful(c, &l->list[i]))
			continue;
		sure = bytes_add(sure, size);
		if (alike(&trained, size))
			matched = bytes_add(matched, size);
	}
	for (size_t i = 0; i < l->count && matched > sure / 2; i++) {
		bytes size = l->list[i].born.bytes;

		if (is_doubtful(c, &l->list[i]) && alike(&trained, size) < alike(&parameters, size))
			l->list[i].category = CATEGORY_BUFFERS;
	}
	free(trained.list);
	free(parameters.list);
}

/* Where the trace ends within a backward pass, a block of a parameter's size is its gradient. */
static void find_gradients(const struct classifier *c, struct lives *l)
{
	struct sizes parameters = sizes_of(l, 1u << CATEGORY_PARAMETERS);

	for (size_t i = 0; i < l->count; i++) {
		struct life *x = &l->list[i];
		struct facts f = facts_of(c, x);

		if (x->category == CATEGORY_TEMPORARIES && f.born && !f.died &&
		    is_backward(f.born) && f.backward_end == c->spans &&
		    alike(&parameters, x->born.bytes))
			x->category = CATEGORY_GRADIENTS;
	}
	free(parameters.list);
}

void classify(struct lives *l, const struct device *d, const struct tables *t, uint64_t end_ns)
{
	struct classifier c = { .device = d, .tables = t, .end_ns = end_ns };

	if (d->failure_count && !failure_survived(&d->failures[d->failure_count - 1]) &&
	    d->failures[d->failure_count - 1].when.time_ns < end_ns)
		c.end_ns = d->failures[d->failure_count - 1].when.time_ns;
	c.spans = spans_at(&d->spans, c.end_ns) ? at(&c, spans_at(&d->spans, c.end_ns)) + 1 : 0;
	find_crowds(&c, l);
	find_workspaces(&c);
	find_lines(&c, l);
	find_buckets(&c, l);
	for (size_t i = 0; i < l->count; i++) {
		struct facts f = facts_of(&c, &l->list[i]);

		l->list[i].category = (uint8_t)category_of(&c, &f);
	}
	find_untrained(&c, l);
	find_gradients(&c, l);
	free(c.crowds);
	free(c.calls);
}
