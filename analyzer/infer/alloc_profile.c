#include "infer/alloc_profile.h"

#include <stdlib.h>
#include <string.h>

#include "attribution/frames.h"
#include "trace/trace.h"
#include "trace/visit.h"

#define MOST_PARAMETERS 200000 /* parameters of one rank that are looked at */

const struct signature signatures[] = {
#define SIGNATURE(key, value, file, function) { #key, value, file, function },
#include "infer/signatures.def"
#undef SIGNATURE
};
const size_t signature_count = ARRAY_SIZE(signatures);
static_assert(ARRAY_SIZE(signatures) <= 64, "signatures are bits of one number");

struct profiling {
	struct alloc_profile *c;
	const struct tables *tables;
	uint32_t apply_line;  /* of Module._apply: where it moves parameters; buffers come later */
	uint32_t bucket_line; /* of ZeRO-3's bucket; 0: not seen */
	enum parameter_source last;
	struct mt_record pending; /* a block of which it is not known yet whether it stays */
	int forward_seen;
};

static void add_parameter(struct alloc_profile *c, enum parameter_source m, bytes size)
{
	struct parameter_sizes *to = &c->parameters[m];

	if (to->count >= MOST_PARAMETERS)
		return;
	to->sizes = grow(to->sizes, to->count, &to->room, sizeof(*to->sizes));
	to->sizes[to->count++] = size;
}

/* SOURCES: it makes no parameter. */
static enum parameter_source source_of(const struct profiling *w, uint32_t stack)
{
	const struct tables *t = w->tables;
	const struct stack *p = tables_stack(t, stack);

	switch (stack_hint(tables_stack_flags(t, stack))) {
	case MAKES_APPLY:
		return tables_stack_info(t, stack)->line == w->apply_line ? SOURCE_APPLY : SOURCES;
	case MAKES_NORM:
		return SOURCE_INIT;
	case MAKES_PARAMETERS:
		break;
	default:
		return SOURCES;
	}
	for (uint32_t i = 0; i < p->frame_count; i++)
		if (str_matches(tables_string(t, tables_frame(t, p->frames[i])->file),
				"*/torch/distributed/fsdp/*"))
			return SOURCE_SHARDED;
	return SOURCE_INIT;
}

static void record_bucket(struct alloc_profile *c, const struct mt_record *r)
{
	if (r->bytes > c->bucket)
		c->bucket = r->bytes;
	if (!c->bucket_stacks || c->bucket_stack != r->stack)
		c->bucket_stacks += c->bucket_stacks < 2;
	c->bucket_stack = r->stack;
}

/* Of the lines of ZeRO-3's set-up that make blocks which stay, the first makes the bucket. */
static void record_zero3_bucket(struct profiling *w, const struct mt_record *r)
{
	uint32_t line = tables_stack_info(w->tables, r->stack)->line;

	if (!w->bucket_line)
		w->bucket_line = line;
	if (line == w->bucket_line)
		record_bucket(w->c, r);
}

/* A block that the next event does not free. */
static void record_pending(struct profiling *w)
{
	const struct mt_record *r = &w->pending;
	uint32_t flags = tables_stack_flags(w->tables, r->stack);
	enum parameter_source m;

	if (!r->kind)
		return;
	if (w->forward_seen || r->bytes <= 0)
		return;
	if (!(flags & STACK_FRAMES)) {
		add_parameter(w->c, w->last, r->bytes);
		size_counts_add(&w->c->small, r->bytes);
		return;
	}
	if (stack_hint(flags) == MAKES_IPG_AND_GRADIENTS)
		record_zero3_bucket(w, r);
	m = source_of(w, r->stack);
	if (m == SOURCES)
		return;
	w->last = m;
	add_parameter(w->c, m, r->bytes);
}

static int is_bucket(const struct tables *t, uint32_t stack)
{
	const struct stack *p = tables_stack(t, stack);
	const struct mt_frame *f = tables_frame(t, p->frame_count ? p->frames[0] : 0);

	return p->frame_count && str_matches(tables_string(t, f->function), "*.setup_buckets") &&
	       str_matches(tables_string(t, f->file), "*/deepspeed/runtime/zero/*");
}

static void record_one(struct profiling *w, const struct mt_record *r)
{
	uint32_t flags = tables_stack_flags(w->tables, r->stack);

	if (r->kind == MT_TENSOR_FREE && r->address == w->pending.address)
		w->pending.kind = 0;
	record_pending(w);
	w->pending.kind = 0;
	if (r->kind != MT_TENSOR_ALLOC)
		return;
	if ((flags & STACK_MODULE) && !(flags & (STACK_INIT | STACK_NO_GRAD | STACK_OPTIMIZER)) &&
	    stack_hint(flags) == MAKES_NOTHING) {
		w->forward_seen = 1;
		size_counts_add(&w->c->forward, r->bytes);
	}
	if (is_bucket(w->tables, r->stack))
		record_bucket(w->c, r);
	w->pending = *r;
}

static void record_all(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	(void)segment;
	(void)first;
	for (size_t i = 0; i < count; i++)
		if (records[i].kind == MT_TENSOR_ALLOC || records[i].kind == MT_TENSOR_FREE)
			record_one(context, &records[i]);
}

static void skip(void *context)
{
	(void)context;
}

static void skip_keyframe(void *context, const struct mt_record *records, size_t count)
{
	(void)context;
	(void)records;
	(void)count;
}

static void skip_segment(void *context, uint64_t segment)
{
	(void)context;
	(void)segment;
}

static uint32_t first_apply_line(const struct tables *t)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < t->stack_count; i++) {
		const struct stack_info *p = tables_stack_info(t, i);

		if (stack_hint(p->flags) == MAKES_APPLY && p->line < least)
			least = p->line;
	}
	return least;
}

static uint64_t signatures_of(const struct tables *t)
{
	uint64_t found = 0;

	for (size_t i = 1; i < t->frame_count; i++) {
		struct str file = tables_string(t, t->frames[i].file),
			   function = tables_string(t, t->frames[i].function);

		for (size_t m = 0; m < signature_count; m++)
			if (!(found >> m & 1) && str_matches(function, signatures[m].function) &&
			    str_matches(file, signatures[m].file))
				found |= UINT64_C(1) << m;
	}
	return found;
}

void alloc_profile_take(struct alloc_profile *c, const struct trace *t)
{
	struct profiling w = { .c = c,
			       .tables = &t->tables,
			       .apply_line = first_apply_line(&t->tables) };
	const struct walker walker = {
		.context = &w,
		.restart = skip,
		.keyframe = skip_keyframe,
		.restarted = skip_segment,
		.records = record_all,
	};

	*c = (struct alloc_profile){ .signatures = signatures_of(&t->tables) };
	/* a file that ends early has what it has: the replay says so */
	walk(t, &walker);
	record_pending(&w);
	size_counts_sort(&c->small);
	size_counts_sort(&c->forward);
}

void alloc_profile_release(struct alloc_profile *c)
{
	for (int m = 0; m < SOURCES; m++)
		free(c->parameters[m].sizes);
	size_counts_release(&c->small);
	size_counts_release(&c->forward);
	*c = (struct alloc_profile){ .signatures = 0 };
}
