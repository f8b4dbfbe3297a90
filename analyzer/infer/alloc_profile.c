#include "infer/alloc_profile.h"

#include <stdlib.h>
#include <string.h>

#include "attribution/attribution.h"
#include "readers/hf.h"
#include "trace/trace.h"
#include "trace/visit.h"
#include "util/hash.h"

#define MAX_PARAMETERS 200000 /* parameters of one rank at most; later ones are ignored */

/* A block of SOURCE_APPLY and its place in the sequence. A model that is moved and then converted
 * is there twice: the blocks that the second call replaces are freed. */
struct applied {
	UT_hash_handle hh;
	uint64_t address;
	size_t at;
};

struct profiling {
	struct alloc_profile *c;
	struct applied *applied; /* by address */
	struct size_counts evaluated;
	const struct tables *tables;
	uint32_t apply_line;  /* line of Module._apply that moves parameters; buffers have a later
				 one */
	uint32_t bucket_line; /* line that allocates ZeRO-3's bucket; 0: not seen */
	enum parameter_source last;
	struct mt_record pending; /* the last block: the next event may free it */
	int forward_seen;
};

static void add_parameter(struct profiling *w, enum parameter_source m, const struct mt_record *r)
{
	struct parameter_sizes *to = &w->c->parameters[m];
	struct applied *one;

	if (to->count >= MAX_PARAMETERS)
		return;
	if (m == SOURCE_APPLY) {
		HASH_FIND(hh, w->applied, &r->address, sizeof(r->address), one);
		if (!one) {
			one = xcalloc(1, sizeof(*one));
			one->address = r->address;
			HASH_ADD(hh, w->applied, address, sizeof(one->address), one);
		}
		one->at = to->count;
	}
	to->sizes = grow(to->sizes, to->count, &to->room, sizeof(*to->sizes));
	to->sizes[to->count++] = r->bytes;
}

/* A block is freed before the first forward pass. */
static void drop_applied(struct profiling *w, uint64_t address)
{
	struct applied *one;

	HASH_FIND(hh, w->applied, &address, sizeof(address), one);
	if (!one)
		return;
	w->c->parameters[SOURCE_APPLY].sizes[one->at] = 0;
	HASH_DEL(w->applied, one);
	free(one);
}

/* Leaves the blocks of SOURCE_APPLY that were not freed. */
static void keep_applied(struct parameter_sizes *m)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++)
		if (m->sizes[i])
			m->sizes[kept++] = m->sizes[i];
	m->count = kept;
}

/* SOURCES: it makes no parameter. */
static enum parameter_source source_of(const struct profiling *w, uint32_t stack)
{
	const struct tables *t = w->tables;
	const struct stack *p = tables_stack(t, stack);

	switch (stack_hint(tables_stack_flags(t, stack))) {
	case HINT_APPLY:
		return tables_stack_info(t, stack)->line == w->apply_line ? SOURCE_APPLY : SOURCES;
	case HINT_NORM:
		return SOURCE_INIT;
	case HINT_PARAMETERS:
		break;
	default:
		return SOURCES;
	}
	for (uint32_t i = 0; i < p->frame_count; i++)
		if (frame_is(t, p->frames[i], FRAME_FSDP))
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

/* The first of the lines of ZeRO-3's set-up that allocate blocks which stay allocates the
 * bucket. */
static void record_zero3_bucket(struct profiling *w, const struct mt_record *r)
{
	uint32_t line = tables_stack_info(w->tables, r->stack)->line;

	if (!w->bucket_line)
		w->bucket_line = line;
	if (line == w->bucket_line)
		record_bucket(w->c, r);
}

/* Records the pending block, which the next event did not free. */
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
		add_parameter(w, w->last, r);
		size_counts_add(&w->c->small, r->bytes);
		return;
	}
	if (stack_hint(flags) == HINT_IPG_AND_GRADIENTS)
		record_zero3_bucket(w, r);
	m = source_of(w, r->stack);
	if (m == SOURCES)
		return;
	w->last = m;
	add_parameter(w, m, r);
}

static int is_bucket(const struct tables *t, uint32_t stack)
{
	const struct stack *p = tables_stack(t, stack);

	return p->frame_count && frame_is(t, p->frames[0], FRAME_ZERO_BUCKET);
}

static int is_called(const struct tables *t, uint32_t stack)
{
	uint32_t flags = tables_stack_flags(t, stack);

	return (flags & STACK_MODULE) &&
	       !(flags & (STACK_INIT | STACK_NO_GRAD | STACK_OPTIMIZER)) &&
	       stack_hint(flags) == HINT_NOTHING;
}

/* Evaluations may have other sizes than training. */
static int is_evaluated(const struct tables *t, uint32_t stack)
{
	return (tables_stack_info(t, stack)->tags & TAGGED(EVALUATE)) != 0;
}

static void record_one(struct profiling *w, const struct mt_record *r)
{
	if (r->kind == MT_TENSOR_FREE && r->address == w->pending.address)
		w->pending.kind = 0;
	record_pending(w);
	w->pending.kind = 0;
	if (r->kind == MT_TENSOR_FREE && !w->forward_seen)
		drop_applied(w, r->address);
	if (r->kind != MT_TENSOR_ALLOC)
		return;
	if (is_called(w->tables, r->stack)) {
		w->forward_seen = 1;
		size_counts_add(is_evaluated(w->tables, r->stack) ? &w->evaluated : &w->c->forward,
				r->bytes);
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

		if (stack_hint(p->flags) == HINT_APPLY && p->line < least)
			least = p->line;
	}
	return least;
}

/* The model_type of config.json, which may be spelled otherwise than the folder of its code: that
 * of gemma3's language model is "gemma3_text", that of xlm_roberta "xlm-roberta". Takes the text.
 */
static char *type_of_folder(char *folder)
{
	char *spelled[] = { folder, xasprintf("%s_text", folder), xasprintf("%s", folder) };
	size_t known = 0;

	for (char *c = spelled[2]; *c; c++)
		*c = *c == '_' ? '-' : *c;
	while (known < ARRAY_SIZE(spelled) && !hf_knows_type(spelled[known]))
		known++;
	known %= ARRAY_SIZE(spelled);
	for (size_t i = 0; i < ARRAY_SIZE(spelled); i++)
		if (i != known)
			free(spelled[i]);
	return spelled[known];
}

static char *model_type_of(const struct tables *t)
{
	struct str folder = { "", 0 };

	for (size_t m = 0; m < signature_count; m++)
		if (!strcmp(signatures[m].key, "model_type"))
			folder = signature_folder(t, &signatures[m]);
	return type_of_folder(xasprintf("%.*s", (int)folder.length, folder.at));
}

void alloc_profile_take(struct alloc_profile *c, const struct trace *t)
{
	struct profiling w = { .c = c,
			       .tables = &t->tables,
			       .apply_line = first_apply_line(&t->tables) };
	const struct record_visitor visitor = {
		.context = &w,
		.keyframe_begin = skip,
		.keyframe = skip_keyframe,
		.keyframe_end = skip_segment,
		.records = record_all,
	};

	*c = (struct alloc_profile){ .signatures = t->tables.signatures,
				     .model_type = model_type_of(&t->tables) };
	/* a file that ends early has what it has: the replay says so */
	trace_visit(t, &visitor);
	record_pending(&w);
	keep_applied(&c->parameters[SOURCE_APPLY]);
	HASH_RELEASE(w.applied);
	size_counts_sort(&c->small);
	size_counts_sort(&c->forward);
	size_counts_sort(&w.evaluated);
	/* a job whose loop is in a function of such a name */
	if (!c->forward.count) {
		size_counts_release(&c->forward);
		c->forward = w.evaluated;
	} else {
		size_counts_release(&w.evaluated);
	}
}

void alloc_profile_release(struct alloc_profile *c)
{
	for (int m = 0; m < SOURCES; m++)
		free(c->parameters[m].sizes);
	size_counts_release(&c->small);
	size_counts_release(&c->forward);
	free(c->model_type);
	*c = (struct alloc_profile){ .signatures = 0 };
}
