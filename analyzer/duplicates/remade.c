#include "duplicates/remade.h"

#include "attribution/attribution.h"
#include "util/size_counts.h"

#include <stdlib.h>

#define MIN_REMADE 5 /* parameters: fewer may have the sizes of others by chance, if not all */
#define MIN_MODELS 3 /* of a service, beside the newest one */
#define MIN_LARGE (INT64_C(1) << 20) /* and two of them, of different sizes, are as large */

static int is_module(const struct lifetime *l, const struct tables *t)
{
	const struct stack_info *s = tables_stack_info(t, l->alloc.stack);

	return l->category == CATEGORY_PARAMETERS && !(s->tags & TAGGED(LOAD)) &&
	       (!(s->tags & TAGGED(COPY)) || s->flags & STACK_INIT);
}

static int is_deep_copy(const struct lifetime *l, const struct tables *t)
{
	const struct stack_info *s = tables_stack_info(t, l->alloc.stack);

	return l->category == CATEGORY_PARAMETERS && s->tags & TAGGED(COPY) &&
	       !(s->flags & STACK_INIT);
}

/* The step of a block; 0: of the set-up. */
static uint32_t step_of(const struct spans *spans, const struct lifetime *l)
{
	const struct span *s = spans_at(spans, l->alloc.time_ns);

	return s ? span_step(s) : 0;
}

/* When the last step of an optimizer before a time began; 0: there was none. */
static uint64_t last_optimizer(const struct spans *spans, uint64_t before_ns)
{
	const struct span *s = spans_at(spans, before_ns);

	for (; s && s >= spans->list; s--)
		if (s->activity == ACTIVITY_OPTIMIZER)
			return s->start_ns;
	return 0;
}

/* Finds the steps that made a deep copy of a model which is still there: clients, folds or
 * snapshots. A reference and an average are both made before the first step. `held` is sorted by
 * time. */
static struct remade replicas_live(const struct lifetime *const *held, size_t count,
				   const struct spans *spans, const struct tables *t)
{
	struct remade found = { 0 };
	bytes first = 0;

	for (size_t i = 0, k; i < count; i = k) {
		const uint32_t step = step_of(spans, held[i]);
		bytes sum = 0;

		for (k = i; k < count && step_of(spans, held[k]) == step; k++) {
			if (!is_deep_copy(held[k], t))
				continue;
			sum = bytes_add(sum, held[k]->alloc.bytes);
			found.extra_count++;
		}
		found.extra = bytes_add(found.extra, sum);
		first = first ? first : sum;
		found.replicas += sum && sum >= first / 10 * 9;
	}
	if (found.replicas < 2)
		found.extra = found.extra_count = 0;
	return found;
}

/* How many calls of a model had begun before a time. `at`: the first span behind it. */
static uint32_t calls_before(const struct spans *spans, uint64_t time_ns, size_t *at,
			     uint32_t calls)
{
	for (; *at < spans->count && spans->list[*at].start_ns <= time_ns; (*at)++)
		calls += (uint32_t)activity_is_call(spans->list[*at].activity);
	return calls;
}

/* In a job that only calls its models, those like the first one that it made between calls and did
 * not drop, as a service does for each of its tenants. What it makes before its first call may be
 * an ensemble. */
static struct remade models_of_service(const struct lifetime *const *held, size_t count,
				       const struct spans *spans, const struct tables *t)
{
	struct remade found = { 0 };
	bytes first = 0, sum = 0; /* of the first model, and of the newest one */
	uint32_t first_blocks = 0, blocks = 0, calls = 0, models = 0;
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t now = calls_before(spans, held[i]->alloc.time_ns, &at, calls);

		if (sum && now != calls) {
			first = first ? first : sum;
			first_blocks = first_blocks ? first_blocks : blocks;
			if (blocks == first_blocks && sum / 10 * 9 <= first &&
			    first / 10 * 9 <= sum) {
				models++;
				found.bytes = bytes_add(found.bytes, sum);
				found.extra_count += blocks;
			}
			sum = blocks = 0;
		}
		calls = now;
		if (is_module(held[i], t)) {
			sum = bytes_add(sum, held[i]->alloc.bytes);
			blocks++;
		}
	}
	found.extra = found.bytes;
	return models >= MIN_MODELS ? found : (struct remade){ 0 };
}

/* Was a parameter of that size there? A model in 16 bits may have been made in 32 bits and
 * converted. */
static int is_like(const struct size_counts *before, bytes size)
{
	return size_counts_count_near(before, size) || size_counts_count_near(before, size / 2);
}

/* Is it a parameter or a buffer like the request, or of half or twice its size? */
static int is_of_module(const struct lifetime *l, bytes request)
{
	bytes size = l->alloc.bytes;

	return (l->category == CATEGORY_PARAMETERS || l->category == CATEGORY_BUFFERS) &&
	       (sizes_are_alike(size, request) || sizes_are_alike(size, request / 2) ||
		sizes_are_alike(size, 2 * request));
}

/* A constructor asks for memory, and a block like it that its line made before the last optimizer's
 * step is still there: of an earlier model of this kind. Returns when that step began; 0: it is not
 * so. */
static uint64_t constructed_again(const struct lifetime *const *held, size_t count,
				  const struct spans *spans, const struct tables *t,
				  const struct failed_request *request, uint64_t at_ns)
{
	uint64_t since_ns;

	if (!request->bytes || !(tables_stack_flags(t, request->stack) & STACK_INIT))
		return 0;
	since_ns = last_optimizer(spans, at_ns);
	for (size_t i = 0; since_ns && i < count; i++)
		if (held[i]->alloc.stack == request->stack && held[i]->alloc.time_ns < since_ns &&
		    is_of_module(held[i], request->bytes))
			return since_ns;
	return 0;
}

/* The parameters that were made before a time, and whether each stack has made one. */
static uint32_t add_before(struct size_counts *before, bytes *sum, unsigned char *stacks,
			   const struct tables *t, const struct lifetime *const *held, size_t count,
			   uint64_t since_ns)
{
	uint32_t blocks = 0;

	for (size_t i = 0; since_ns && i < count; i++) {
		const struct mt_record *r = &held[i]->alloc;

		if (held[i]->category != CATEGORY_PARAMETERS || r->time_ns >= since_ns)
			continue;
		size_counts_add(before, r->bytes);
		*sum = bytes_add(*sum, r->bytes);
		if (r->stack < t->stack_count)
			stacks[r->stack] = 1;
		blocks++;
	}
	size_counts_sort(before);
	return blocks;
}

/* Gradients that were made before a time. A model that is trained on has new ones, unless they are
 * set to zero instead of freed. */
static bytes gradients_before(const struct lifetimes *l, uint64_t since_ns)
{
	bytes sum = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].category == CATEGORY_GRADIENTS &&
		    l->list[i].alloc.time_ns < since_ns)
			sum = bytes_add(sum, l->list[i].alloc.bytes);
	return sum;
}

/* How many parameters were there before the first step of an optimizer? */
static uint32_t count_of_first(const struct lifetime *const *held, size_t count,
			       const struct spans *spans)
{
	uint64_t until_ns = UINT64_MAX;
	uint32_t n = 0;

	for (size_t i = 0; i < spans->count && until_ns == UINT64_MAX; i++)
		if (spans->list[i].activity == ACTIVITY_OPTIMIZER)
			until_ns = spans->list[i].start_ns;
	for (size_t i = 0; i < count && held[i]->alloc.time_ns < until_ns; i++)
		n += held[i]->category == CATEGORY_PARAMETERS;
	return n;
}

struct remade remade_live(const struct lifetimes *l, const struct trained *n,
			  const struct lifetime *const *held, size_t count,
			  const struct spans *spans, const struct tables *t,
			  const struct failed_request *request, uint64_t at_ns)
{
	struct size_counts before = { 0 };
	struct remade found = replicas_live(held, count, spans, t);
	bytes anew = 0, alike = 0, of_line = 0;
	uint32_t blocks = 0, count_before, large = 0;
	bytes large_size = 0; /* of the first large parameter */
	uint64_t since_ns = constructed_again(held, count, spans, t, request, at_ns);
	int is_again = since_ns != 0;
	unsigned char *stacks;

	if (!spans_have(spans, ACTIVITY_OPTIMIZER) && !spans_have(spans, ACTIVITY_BACKWARD)) {
		struct remade service = models_of_service(held, count, spans, t);

		return service.bytes ? service : found;
	}
	for (size_t i = count; i-- > 0 && !since_ns;)
		if (is_module(held[i], t))
			since_ns = last_optimizer(spans, held[i]->alloc.time_ns);
	stacks = xcalloc(t->stack_count + 1, 1);
	count_before = add_before(&before, &found.bytes, stacks, t, held, count, since_ns);
	for (size_t i = 0; since_ns && i < count; i++) {
		const struct mt_record *r = &held[i]->alloc;

		if (!is_module(held[i], t) || r->time_ns < since_ns)
			continue;
		blocks++;
		large += r->bytes >= MIN_LARGE && r->bytes != large_size;
		large_size = large_size || r->bytes < MIN_LARGE ? large_size : r->bytes;
		if (!size_counts_count_near(&n->states, r->bytes) &&
		    !size_counts_count_near(&n->gradients, r->bytes))
			found.late = bytes_add(found.late, r->bytes);
		anew = bytes_add(anew, r->bytes);
		alike = bytes_add(alike, is_like(&before, r->bytes) ? r->bytes : 0);
		if (r->stack < t->stack_count && stacks[r->stack])
			of_line = bytes_add(of_line, r->bytes);
	}
	size_counts_release(&before);
	free(stacks);
	/* Trials of a search have other sizes, and each its own gradients. What a model grows by is
	 * little of it. */
	is_again |= blocks >= MIN_REMADE && blocks >= count_of_first(held, count, spans) / 2 &&
		    of_line >= anew / 10 * 9 && gradients_before(l, since_ns) >= found.bytes / 2;
	if (!is_again &&
	    (blocks < MIN_REMADE ? !(large > 1 && alike == anew) : alike < anew / 10 * 9))
		found.bytes = 0;
	if (blocks < MIN_REMADE || found.bytes)
		found.late = 0;
	if (found.bytes > found.extra) {
		found.extra = found.bytes;
		found.extra_count = count_before;
	}
	return found;
}
