#include "duplicates/remade.h"

#include "attribution/attribution.h"
#include "util/size_counts.h"

#define MIN_REMADE 8 /* parameters: fewer may have the sizes of others by chance */

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

/* When the last step of an optimizer before a time began; 0: there was none. */
static uint64_t last_optimizer(const struct spans *spans, uint64_t before_ns)
{
	const struct span *s = spans_at(spans, before_ns);

	for (; s && s >= spans->list; s--)
		if (s->activity == ACTIVITY_OPTIMIZER)
			return s->start_ns;
	return 0;
}

/* The steps that made a deep copy of a model which is still there: clients, folds or snapshots. A
 * reference and an average are both made before the first step. `held` is sorted by time. */
static uint32_t replicas_live(const struct lifetime *const *held, size_t count,
			      const struct spans *spans, const struct tables *t)
{
	uint32_t copies = 0;
	bytes first = 0;

	for (size_t i = 0, k; i < count; i = k) {
		const struct span *s = spans_at(spans, held[i]->alloc.time_ns);
		bytes sum = 0;

		for (k = i; k < count; k++) {
			const struct span *of = spans_at(spans, held[k]->alloc.time_ns);

			if ((of ? span_step(of) : 0) != (s ? span_step(s) : 0))
				break;
			sum = bytes_add(sum, is_deep_copy(held[k], t) ? held[k]->alloc.bytes : 0);
		}
		first = first ? first : sum;
		copies += sum && sum >= first / 10 * 9;
	}
	return copies;
}

struct remade remade_live(const struct lifetime *const *held, size_t count,
			  const struct spans *spans, const struct tables *t)
{
	const uint32_t replicas = replicas_live(held, count, spans, t);
	struct size_counts before = { 0 };
	struct remade found = { 0 };
	bytes anew = 0, alike = 0;
	unsigned blocks = 0;
	uint64_t since_ns = 0;

	for (size_t i = count; i-- > 0 && !since_ns;)
		if (is_module(held[i], t))
			since_ns = last_optimizer(spans, held[i]->alloc.time_ns);
	for (size_t i = 0; since_ns && i < count; i++) {
		const struct mt_record *r = &held[i]->alloc;

		if (held[i]->category != CATEGORY_PARAMETERS || r->time_ns >= since_ns)
			continue;
		size_counts_add(&before, r->bytes);
		found.bytes = bytes_add(found.bytes, r->bytes);
		found.count++;
	}
	size_counts_sort(&before);
	for (size_t i = 0; since_ns && i < count; i++) {
		const struct mt_record *r = &held[i]->alloc;

		if (!is_module(held[i], t) || r->time_ns < since_ns)
			continue;
		blocks++;
		anew = bytes_add(anew, r->bytes);
		alike = bytes_add(alike, size_counts_find(&before, r->bytes) ? r->bytes : 0);
	}
	size_counts_release(&before);
	if (blocks < MIN_REMADE || alike < anew / 10 * 9)
		found = (struct remade){ 0 };
	found.replicas = replicas;
	return found;
}
