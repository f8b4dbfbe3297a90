#include "attribution/block_info.h"

#include "attribution/evaluation.h"

#include <stdlib.h>

/*
 * Functions that allocate blocks of several kinds, on different lines. Line numbers differ from
 * version to version, their order does not: of the lines that allocated live blocks, the first one
 * allocated `first`, every later one `later`, and a single one `alone`.
 */
static const struct {
	enum block_hint kind, first, later, alone;
} by_line[] = {
	/* Module._apply() converts parameters first, then their gradients (rare), then buffers. */
	{ HINT_APPLY, HINT_PARAMETERS, HINT_BUFFERS, HINT_PARAMETERS },
	{ HINT_NORM, HINT_PARAMETERS, HINT_BUFFERS, HINT_PARAMETERS },
	/* Without the distributed optimizer the buffer holds gradients only. */
	{ HINT_PARAM_AND_GRAD, HINT_PARAMETERS, HINT_GRADIENTS, HINT_GRADIENTS },
	{ HINT_IPG_AND_GRADIENTS, HINT_COMMUNICATION, HINT_GRADIENTS, HINT_GRADIENTS },
};

static_assert(ARRAY_SIZE(by_line) == LINE_KINDS, "one range of lines each");

/* Fills in `after`, from the last span to the first, and `calls`, from the first to the last. */
static void index_spans(struct block_context *c)
{
	const struct span *list = c->in.spans->list;
	uint32_t behind = (uint32_t)c->span_count, calls = 0;
	int has_calls = spans_have(c->in.spans, ACTIVITY_MODEL) ||
			spans_have(c->in.spans, ACTIVITY_EVALUATION);

	c->after = xcalloc(c->span_count, sizeof(*c->after));
	c->calls = xcalloc(c->span_count, sizeof(*c->calls));
	for (size_t i = c->span_count; i-- > 0;) {
		if (list[i].phase == PHASE_BACKWARD &&
		    (i + 1 == c->span_count || list[i + 1].phase != PHASE_BACKWARD))
			behind = (uint32_t)i + 1;
		c->after[i] = behind;
	}
	for (size_t i = 0; i < c->span_count && has_calls; i++) {
		c->calls[i] = calls;
		calls += (uint32_t)activity_is_call(list[i].activity);
	}
}

/* If backward passes leave fewer bytes than half of DDP's buckets, the gradients are views of the
 * buckets. */
static void find_buckets(struct block_context *c, const struct lifetimes *l)
{
	bytes buckets = 0;

	for (size_t i = 0; i < l->count; i++)
		if (stack_hint(tables_stack_flags(c->in.tables, l->list[i].alloc.stack)) ==
		    HINT_BUCKETS)
			buckets = bytes_add(buckets, l->list[i].alloc.bytes);
	c->buckets_are_gradients =
		c->span_count && c->after[0] < c->span_count && c->in.outlived < buckets / 2;
}

static void add_line(struct block_context *c, const struct stack_info *p)
{
	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++) {
		if (stack_hint(p->flags) != by_line[k].kind)
			continue;
		if (p->line < c->lines[k].least)
			c->lines[k].least = p->line;
		if (p->line > c->lines[k].most)
			c->lines[k].most = p->line;
	}
}

/* Does Module._apply() call a function in the stack, which allocates? On lines without one it goes
 * to its parts, and frees what it has replaced. */
static int converts(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);
	const struct stack_info *p = tables_stack_info(t, stack);

	return stack_hint(p->flags) == HINT_APPLY && s->frame_count &&
	       tables_frame(t, s->frames[0])->line != p->line;
}

/* Small parameters have no stack, but the segment that they lie in has one. */
static void find_lines(struct block_context *c, const struct lifetimes *l)
{
	const struct tables *t = c->in.tables;

	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		c->lines[k].least = UINT32_MAX;
	for (size_t i = 0; i < l->count; i++)
		add_line(c, tables_stack_info(t, l->list[i].alloc.stack));
	for (uint32_t i = 0; i < t->stack_count; i++)
		if (converts(t, i))
			add_line(c, tables_stack_info(t, i));
}

enum block_hint block_context_hint(const struct block_context *c, const struct stack_info *p)
{
	enum block_hint m = stack_hint(p->flags);

	if (m == HINT_BUCKETS && c->buckets_are_gradients)
		return HINT_GRADIENTS;
	for (size_t k = 0; k < ARRAY_SIZE(by_line); k++)
		if (m == by_line[k].kind)
			return c->lines[k].least == c->lines[k].most ? by_line[k].alone
			       : p->line > c->lines[k].least         ? by_line[k].later
								     : by_line[k].first;
	return m;
}

static uint32_t stack_of(const struct block_context *c, const struct lifetime *l)
{
	return l->alloc.stack < c->in.tables->stack_count ? l->alloc.stack : MT_NO_STACK;
}

/* The span of a time, NULL if it does not count. */
static const struct span *span_at(const struct block_context *c, uint64_t time_ns)
{
	const struct span *s = spans_at(c->in.spans, time_ns);

	return s && span_index(c, s) < c->span_count ? s : NULL;
}

static void find_siblings(struct block_context *c, const struct lifetimes *l)
{
	c->siblings = xcalloc(c->in.tables->stack_count, sizeof(*c->siblings));
	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = span_at(c, l->list[i].alloc.time_ns);
		struct siblings *siblings = &c->siblings[stack_of(c, &l->list[i])];
		uint32_t call = s ? c->calls[span_index(c, s)] : 0;

		if (!siblings->blocks || call < siblings->first_call)
			siblings->first_call = call;
		if (call > siblings->last_call)
			siblings->last_call = call;
		if (s && s->step > siblings->last_step)
			siblings->last_step = s->step;
		siblings->blocks++;
	}
}

struct block_info block_info_of(const struct block_context *c, const struct lifetime *l)
{
	const struct tables *t = c->in.tables;
	struct block_info f = {
		.alloc_span = span_at(c, l->alloc.time_ns),
		.alloc_flags = tables_stack_flags(t, l->alloc.stack),
		.alloc_tags = tables_stack_info(t, l->alloc.stack)->tags,
		.bytes = l->alloc.bytes,
		.alloc_ns = l->alloc.time_ns,
	};

	f.hint = block_context_hint(c, tables_stack_info(t, l->alloc.stack));
	/*
	 * A small block has no stack. During set-up it counts as the blocks allocated around it,
	 * which have a span of their own. After a buffer it is a parameter of the next module,
	 * since a module allocates its parameters first.
	 */
	if (f.alloc_span && f.alloc_span->phase == PHASE_SETUP && !(f.alloc_flags & STACK_FRAMES)) {
		f.alloc_flags = tables_stack_flags(t, f.alloc_span->stack);
		f.hint = block_context_hint(c, tables_stack_info(t, f.alloc_span->stack));
		if (f.hint == HINT_BUFFERS)
			f.hint = HINT_PARAMETERS;
	}
	f.is_between = c->has_autograd && !(f.alloc_flags & STACK_FRAMES) && f.alloc_span &&
		       f.alloc_span->phase == PHASE_BACKWARD &&
		       t->thread_flags[l->alloc.thread] & THREAD_MAIN;
	if (f.alloc_span) {
		f.backward_end = c->after[span_index(c, f.alloc_span)];
		f.siblings = c->siblings[stack_of(c, l)];
	}
	/* A block that is freed after the job failed was live as long as the job ran. */
	if (l->freed_ns > c->in.end_ns)
		return f;
	f.is_transient = l->is_transient;
	f.free_span = span_at(c, l->freed_ns);
	f.free_flags = tables_stack_flags(t, l->freed_stack);
	return f;
}

/* Each autograd thread has one workspace. Several blocks of that size from backward passes are
 * something else, or all but the first are; so are several of one stack. */
static void count_workspaces(struct block_context *c, const struct lifetimes *l)
{
	unsigned n = 0, all = 0;

	for (int i = 0; i < WORKSPACE_SIZES; i++)
		c->first_workspace[i] = UINT64_MAX;
	for (size_t i = 0; i < l->count; i++) {
		int size = workspace_sizes_find(&c->workspaces, l->list[i].alloc.bytes);
		uint64_t time_ns = l->list[i].alloc.time_ns;
		const struct span *s;

		if (l->list[i].freed_ns <= c->in.end_ns || size < 0)
			continue;
		c->siblings[stack_of(c, &l->list[i])].workspaces++;
		s = span_at(c, time_ns);
		if (!s)
			continue;
		if (s->phase == PHASE_BACKWARD && time_ns < c->first_workspace[size])
			c->first_workspace[size] = time_ns;
		c->kept_workspaces[size] += s->phase == PHASE_FORWARD && s->step == 1;
		n += s->phase == PHASE_BACKWARD;
		all++;
	}
	c->many_workspaces = n > 1;
	c->one_workspace = all == 1;
}

int block_outlives_backward(const struct block_context *c, const struct block_info *f)
{
	return f->backward_end < c->span_count &&
	       (!f->free_span || span_index(c, f->free_span) >= f->backward_end);
}

int block_is_of_unused_graph(const struct block_context *c, const struct block_info *f)
{
	const struct span *s = f->alloc_span;
	uint32_t left = s->allocs > s->frees ? s->allocs - s->frees : 0;

	return left > CALL_LEAVES && c->kept[span_index(c, s)] > left / 2;
}

static void count_kept(struct block_context *c, const struct lifetimes *l)
{
	c->kept = xcalloc(c->span_count, sizeof(*c->kept));
	/* Without a backward pass nothing outlives one. */
	for (size_t i = 0; i < l->count && c->span_count && c->after[0] < c->span_count; i++) {
		struct block_info f = block_info_of(c, &l->list[i]);

		if (f.alloc_span && block_outlives_backward(c, &f))
			c->kept[span_index(c, f.alloc_span)]++;
	}
}

void block_context_init(struct block_context *c, const struct lifetimes *l,
			const struct block_setting *in)
{
	const struct span *s = spans_at(in->spans, in->end_ns);

	*c = (struct block_context){ .in = *in };
	c->span_count = s ? span_index(c, s) + 1 : 0;
	index_spans(c);
	find_siblings(c, l);
	for (size_t i = 0; i < l->count && !c->has_autograd; i++)
		c->has_autograd =
			(in->tables->thread_flags[l->list[i].alloc.thread] & THREAD_AUTOGRAD) != 0;
	c->workspaces = workspace_sizes_of(in->tables);
	c->workspaces_last = workspaces_last(in->tables);
	count_workspaces(c, l);
	find_lines(c, l);
	find_buckets(c, l);
	count_kept(c, l);
}

void block_context_release(struct block_context *c)
{
	free(c->kept);
	free(c->siblings);
	free(c->calls);
	free(c->after);
}
