#include "attribution/block_info.h"

#include "trace/trace.h"

#include <stdlib.h>

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

static_assert(ARRAY_SIZE(by_line) == FACTS_LINES, "one range of lines each");

/* From the end: where the next backward pass is over. From the start: the calls of a model. */
static void walk_spans(struct setting *c)
{
	const struct span *list = c->device->spans.list;
	uint32_t behind = (uint32_t)c->spans, calls = 0;

	c->after = xcalloc(c->spans, sizeof(*c->after));
	c->calls = xcalloc(c->spans, sizeof(*c->calls));
	for (size_t i = c->spans; i-- > 0;) {
		if (list[i].phase == PHASE_BACKWARD &&
		    (i + 1 == c->spans || list[i + 1].phase != PHASE_BACKWARD))
			behind = (uint32_t)i + 1;
		c->after[i] = behind;
	}
	for (size_t i = 0; i < c->spans; i++) {
		c->calls[i] = calls;
		calls += list[i].activity == ACTIVITY_MODEL ||
			 list[i].activity == ACTIVITY_EVALUATION;
	}
}

/* Where the backward pass leaves no gradients of its own, they live in the buckets. */
static void find_buckets(struct setting *c, const struct lives *l)
{
	bytes buckets = 0;

	for (size_t i = 0; i < l->count; i++)
		if (stack_hint(tables_stack_flags(c->tables, l->list[i].born.stack)) ==
		    MAKES_BUCKETS)
			buckets = bytes_add(buckets, l->list[i].born.bytes);
	c->buckets_are_gradients = c->spans && c->after[0] < c->spans &&
				   c->device->outlived < buckets / 2;
}

static void find_lines(struct setting *c, const struct lives *l)
{
	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		c->lines[k].least = UINT32_MAX;
	for (size_t i = 0; i < l->count; i++) {
		const struct stack_info *p = tables_stack_info(c->tables, l->list[i].born.stack);

		for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
			if (stack_hint(p->flags) == by_line[k].kind) {
				if (p->line < c->lines[k].least)
					c->lines[k].least = p->line;
				if (p->line > c->lines[k].most)
					c->lines[k].most = p->line;
			}
	}
}

enum makes facts_makes(const struct setting *c, const struct stack_info *p)
{
	enum makes m = stack_hint(p->flags);

	if (m == MAKES_BUCKETS && c->buckets_are_gradients)
		return MAKES_GRADIENTS;
	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		if (m == by_line[k].kind)
			return c->lines[k].least == c->lines[k].most ? by_line[k].alone
			       : p->line > c->lines[k].least         ? by_line[k].later
								     : by_line[k].first;
	return m;
}

static uint32_t stack_of(const struct setting *c, const struct life *l)
{
	return l->born.stack < c->tables->stack_count ? l->born.stack : MT_NO_STACK;
}

/* The span of a time that counts. */
static const struct span *span_at(const struct setting *c, uint64_t time_ns)
{
	const struct span *s = spans_at(&c->device->spans, time_ns);

	return s && facts_at(c, s) < c->spans ? s : NULL;
}

static void find_crowds(struct setting *c, const struct lives *l)
{
	c->crowds = xcalloc(c->tables->stack_count, sizeof(*c->crowds));
	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = span_at(c, l->list[i].born.time_ns);
		struct crowd *crowd = &c->crowds[stack_of(c, &l->list[i])];
		uint32_t call = s ? c->calls[facts_at(c, s)] : 0;

		if (!crowd->blocks || call < crowd->first_call)
			crowd->first_call = call;
		if (call > crowd->last_call)
			crowd->last_call = call;
		if (s && s->step > crowd->last_step)
			crowd->last_step = s->step;
		crowd->blocks++;
	}
}

struct facts facts_of(const struct setting *c, const struct life *l)
{
	const struct tables *t = c->tables;
	struct facts f = {
		.born = span_at(c, l->born.time_ns),
		.born_flags = tables_stack_flags(t, l->born.stack),
		.bytes = l->born.bytes,
	};

	f.makes = facts_makes(c, tables_stack_info(t, l->born.stack));
	/*
	 * A small block without a stack is what is made around it, which in setting up has spans of its own. Behind a buffer it is the
	 * next module's parameter: those come first, and are often small.
	 */
	if (f.born && f.born->phase == PHASE_SETUP && !(f.born_flags & STACK_FRAMES)) {
		f.born_flags = tables_stack_flags(t, f.born->stack);
		f.makes = facts_makes(c, tables_stack_info(t, f.born->stack));
		if (f.makes == MAKES_BUFFERS)
			f.makes = MAKES_PARAMETERS;
	}
	if (f.born) {
		f.backward_end = c->after[facts_at(c, f.born)];
		f.crowd = c->crowds[stack_of(c, l)];
	}
	/* What frees a block after the job's failure is the job's end. */
	if (l->died_ns > c->end_ns)
		return f;
	f.at_once = l->at_once;
	f.died = span_at(c, l->died_ns);
	f.died_flags = tables_stack_flags(t, l->freed_stack);
	return f;
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
static void find_workspaces(struct setting *c)
{
	const struct meta *asked =
		tables_meta(c->tables, MT_META_ENV "CUBLAS_WORKSPACE_CONFIG");

	c->workspaces[0] = INT64_C(32) << 20;
	c->workspaces[1] = (INT64_C(4096) * 2 + 16 * 8) << 10;
	if (asked)
		c->workspaces[2] = workspace_config(asked->value);
}


int facts_is_workspace_size(const struct setting *c, bytes size)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->workspaces); i++)
		if (c->workspaces[i] && size == c->workspaces[i])
			return 1;
	return 0;
}

/* A backward pass takes one a thread; more blocks of that size are something else's. */
static void count_workspaces(struct setting *c, const struct lives *l)
{
	unsigned n = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = span_at(c, l->list[i].born.time_ns);

		n += s && s->phase == PHASE_BACKWARD && l->list[i].died_ns > c->end_ns &&
		     facts_is_workspace_size(c, l->list[i].born.bytes);
	}
	c->many_workspaces = n > 1;
}

void facts_begin(struct setting *c, const struct lives *l, const struct device *d,
		 const struct tables *t, uint64_t end_ns)
{
	const struct failure *last = d->failure_count ? &d->failures[d->failure_count - 1] : NULL;
	const struct span *s;

	*c = (struct setting){ .device = d, .tables = t, .end_ns = end_ns };
	if (last && !failure_survived(last) && last->when.time_ns < end_ns)
		c->end_ns = last->when.time_ns;
	s = spans_at(&d->spans, c->end_ns);
	c->spans = s ? facts_at(c, s) + 1 : 0;
	walk_spans(c);
	find_crowds(c, l);
	find_workspaces(c);
	count_workspaces(c, l);
	find_lines(c, l);
	find_buckets(c, l);
}

void facts_end(struct setting *c)
{
	free(c->crowds);
	free(c->calls);
	free(c->after);
}
