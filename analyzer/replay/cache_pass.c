#include "replay/cache_pass.h"

#include "attribution/attribution.h"
#include "attribution/frames.h"
#include "inference/cache_calls.h"
#include "replay/live_set.h"
#include "trace/event.h"
#include "trace/visit.h"
#include "util/buf.h"

#include <stdlib.h>

struct cache_pass {
	struct cache_calls *calls;
	struct live_set live; /* the blocks; their numbers are in the place of the times */
	int device, has_gap;
};

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	struct cache_pass *p = context;
	struct mt_record was;

	(void)segment;
	(void)first;
	for (size_t i = 0; i < count; i++) {
		struct mt_record r = records[i];

		if (r.device != p->device || event_alloc_kind(r.kind) != MT_TENSOR_ALLOC ||
		    !record_is_valid(&r))
			continue;
		if (live_set_take(&p->live, MT_TENSOR_ALLOC, r.address, &was))
			cache_calls_free(p->calls, (uint32_t)was.time_ns);
		if (r.kind != MT_TENSOR_ALLOC)
			continue;
		r.time_ns = cache_calls_add(p->calls, &r);
		live_set_add(&p->live, &r);
	}
}

static void on_gap(void *context)
{
	((struct cache_pass *)context)->has_gap = 1;
}

static void on_restored(void *context, const struct mt_record *records, size_t count)
{
	(void)context;
	(void)records;
	(void)count;
}

static void on_gap_end(void *context, uint64_t segment)
{
	(void)context;
	(void)segment;
}

/* Marks the stacks of the cache: those that the moment shows, and those of transformers' code that
 * grows one. Returns the one whose blocks tell the calls best; 0: none grows. */
static uint32_t find_stacks(unsigned char *is_cache, const struct snapshot *live,
			    const struct history *h, const struct tables *t)
{
	uint32_t best = 0;

	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].category == CATEGORY_KV_CACHE &&
		    live->groups[i].stack < t->stack_count)
			is_cache[live->groups[i].stack] = 1;
	for (uint32_t i = 1; i < t->stack_count && i < h->stack_count; i++) {
		const struct series *s = history_series(&h->stacks[i]);

		is_cache[i] |= hint_is_cache(stack_hint(tables_stack_flags(t, i)));
		if (is_cache[i] && s->last > s->first && series_calls(s) > 1 &&
		    series_replaces(s) &&
		    (!best || series_calls(s) > series_calls(history_series(&h->stacks[best]))))
			best = i;
	}
	return best;
}

/* The memory that PyTorch's allocator can have; 0: unknown. A job that ran out shows that none is
 * left. */
static bytes room_of(const struct device *d)
{
	return d->total && !d->failure_count
		       ? larger_of(d->total - d->device_peak.other - d->device_peak.untracked, 0)
		       : 0;
}

void replay_cache(struct device *d, int device, const struct trace *t, const struct history *h)
{
	const struct snapshot *live =
		d->failure_count ? &d->failures[d->failure_count - 1].live : &d->at_peak;
	struct cache_pass p = { .device = device };
	struct record_visitor visitor = { .context = &p,
					  .keyframe_begin = on_gap,
					  .keyframe = on_restored,
					  .keyframe_end = on_gap_end,
					  .records = on_records };
	struct buf conf = { 0 };
	unsigned char *is_cache;
	uint32_t stack;

	if (!h || !live->inference.is_inference || d->counted_from_runtime)
		return;
	is_cache = xcalloc(t->tables.stack_count, 1);
	stack = find_stacks(is_cache, live, h, &t->tables);
	if (stack) {
		buf_add_clean(&conf, tables_allocator_conf(&t->tables));
		p.calls = cache_calls_new(
			&(struct cache_plan){ .is_cache = is_cache,
					      .stack_count = t->tables.stack_count,
					      .stack = stack,
					      .series = *history_series(&h->stacks[stack]),
					      .room = room_of(d),
					      .conf = conf.text ? conf.text : "",
					      .torch_version = tables_torch_version(&t->tables) });
		live_set_init(&p.live);
		trace_visit(t, &visitor);
		live_set_release(&p.live);
		d->cache = cache_calls_end(p.calls);
		if (p.has_gap)
			d->cache = (struct cache_growth){ .left = -1 };
		buf_release(&conf);
	}
	free(is_cache);
}
