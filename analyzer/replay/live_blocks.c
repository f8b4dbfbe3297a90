/*
 * Keeps the live set and takes a probe of it at each peak and failure. The category of a block
 * depends on when it is freed, so the blocks of the peak and of the last failure are followed to
 * the end of the trace. Those of other failures are classified at once.
 */
#include "replay/live_blocks.h"

#include "attribution/attribution.h"
#include "attribution/classify.h"
#include "replay/accounting.h"
#include "replay/backward_names.h"
#include "replay/cache_pass.h"
#include "trace/event.h"
#include "trace/visit.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define PREFETCH 12 /* records ahead: enough to hide the latency of memory */

/* A point of the trace at which the live blocks are wanted. */
struct probe {
	struct position at;
	int device;
	int failure;                /* index of the failure; -1: the peak */
	struct lifetimes lifetimes; /* of the live blocks, while they are followed */
	struct history *history;    /* of the stacks up to here; NULL: the job trains */
};

struct live_blocks_pass {
	struct replay *replay;
	const struct tables *tables;
	const struct replay_options *options;
	struct live_set live;
	struct probe *probes;
	size_t probe_count, next;
	struct history *history[MT_MAX_DEVICES]; /* NULL: no blocks, or the job trains */
	int history_count;                       /* of them, not NULL */
	struct probe *followed[2 * MT_MAX_DEVICES];
	size_t followed_count;
	uint64_t followed_until_ns; /* no later allocation is followed */
	int has_autograd;           /* there are blocks of a backward pass */
	struct backward_names names;
	int quiet; /* nothing was allocated since the last probe */
};

/* Is it a live block of the device? */
static int is_tensor(const struct live_blocks_pass *b, const struct mt_record *r, int device)
{
	return r->kind && r->device == device &&
	       account_is_block(&b->replay->device[device], b->tables, r);
}

static int by_address(const void *a, const void *b)
{
	const struct mt_record *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int is_segment(const struct live_blocks_pass *b, const struct mt_record *r, int device)
{
	return r->device == device && account_is_segment(&b->replay->device[device], b->tables, r);
}

/* The live segments or the live blocks, by address. The caller frees them. */
static struct mt_record *collect(const struct live_blocks_pass *b, int device, int segments,
				 size_t *count)
{
	struct mt_record *found = NULL;
	size_t room = 0;

	*count = 0;
	for (size_t i = 0; i <= b->live.mask; i++) {
		const struct mt_record *r = &b->live.slots[i];

		if (segments ? !is_segment(b, r, device) : !is_tensor(b, r, device))
			continue;
		found = grow(found, *count, &room, sizeof(*found));
		found[(*count)++] = *r;
	}
	if (*count)
		qsort(found, *count, sizeof(*found), by_address);
	return found;
}

size_t live_blocks_merge_mapped(struct mt_record *segment, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct mt_record *last = kept ? &segment[kept - 1] : NULL;

		if (last && last->kind == MT_MAP && segment[i].kind == MT_MAP &&
		    last->device == segment[i].device &&
		    last->address + (uint64_t)last->bytes == segment[i].address)
			last->bytes = bytes_add(last->bytes, segment[i].bytes);
		else
			segment[kept++] = segment[i];
	}
	return kept;
}

/*
 * The largest gap between live blocks in the allocator's segments. -1 (not known) if some block
 * lies in no segment that was seen.
 */
static bytes largest_free(const struct live_blocks_pass *b, int device, bytes reserved)
{
	size_t segments, blocks, k = 0, inside = 0;
	struct mt_record *segment, *block;
	bytes largest = 0;

	if (b->replay->device[device].counted_from_runtime)
		return -1;
	segment = collect(b, device, 1, &segments);
	segments = live_blocks_merge_mapped(segment, segments);
	block = collect(b, device, 0, &blocks);
	for (size_t i = 0; i < segments; i++) {
		uint64_t at = segment[i].address, end = at + (uint64_t)segment[i].bytes, gap;

		if (end < at)
			continue;
		while (k < blocks && block[k].address < at)
			k++;
		for (; k < blocks && block[k].address < end; k++, inside++) {
			uint64_t block_end = block[k].address + (uint64_t)block[k].bytes;

			gap = block[k].address > at ? block[k].address - at : 0;
			largest = gap > (uint64_t)largest ? (bytes)gap : largest;
			at = block_end > at ? block_end : at;
		}
		gap = end > at ? end - at : 0;
		largest = gap > (uint64_t)largest ? (bytes)gap : largest;
	}
	if (inside < blocks || (!segments && reserved > 0))
		largest = -1;
	free(segment);
	free(block);
	return largest;
}

/* The device's live blocks, as lifetimes that are open. */
static void collect_lifetimes(const struct live_blocks_pass *b, struct lifetimes *l, int device)
{
	*l = (struct lifetimes){ 0 };
	for (size_t i = 0; i <= b->live.mask; i++)
		if (is_tensor(b, &b->live.slots[i], device))
			lifetimes_add(l, &b->live.slots[i]);
	lifetimes_sort(l);
}

/* Classifies the blocks of a probe and takes their snapshot. */
static void probe_finish(struct live_blocks_pass *b, struct probe *s, uint64_t end_ns)
{
	struct device *d = &b->replay->device[s->device];
	struct snapshot *to = &d->at_peak;
	uint64_t at_ns = d->peak.time_ns;
	struct failed_request request = { .stack = MT_NO_STACK };

	if (s->failure >= 0 && !d->failures)
		BUG("a probe of a failure that is not in the list");
	if (s->failure >= 0) {
		request.stack = d->failures[s->failure].stack;
		request.bytes = d->failures[s->failure].requested;
		to = &d->failures[s->failure].live;
		at_ns = d->failures[s->failure].when.time_ns;
	}
	classify(&s->lifetimes, &(struct block_setting){ .spans = &d->spans,
							 .tables = b->tables,
							 .end_ns = device_end_of_job(d, end_ns),
							 .outlived = d->outlived });
	inference_find_categories(&s->lifetimes, s->history, &d->spans, b->tables);
	for (size_t i = 0; i < s->lifetimes.count; i++) {
		struct lifetime *l = &s->lifetimes.list[i];

		/* A workspace belongs to the thread, not to the node that needed it first. */
		if (l->category != CATEGORY_WORKSPACES)
			l->origin = backward_origin(&d->backward, &l->alloc);
	}
	*to = snapshot_of(&s->lifetimes, b->tables);
	to->duplicates = duplicates_live(&s->lifetimes, &d->spans, b->tables, &request, at_ns);
	to->untied = untied_live(&s->lifetimes, &d->spans, b->tables, &request);
	to->passes = passes_live(&s->lifetimes, &d->spans, b->tables, request.stack, at_ns);
	to->inference = inference_live(&s->lifetimes, s->history,
				       d->failure_count ? NULL : b->history[s->device], &d->spans,
				       b->tables);
	history_free(s->history);
	s->history = NULL;
	if (s->failure < 0 && b->options->keep_peak_blocks)
		d->peak_blocks = s->lifetimes;
	else
		lifetimes_release(&s->lifetimes);
}

static int is_last_probe(const struct live_blocks_pass *b, const struct probe *s)
{
	const struct probe *later = s + 1, *end = b->probes + b->probe_count;

	while (later < end && later->device != s->device)
		later++;
	return later == end;
}

/* The history of the stacks up to the probe. */
static void take_history(struct live_blocks_pass *b, struct probe *s)
{
	if (!b->history[s->device])
		return;
	s->history = history_copy(b->history[s->device]);
	history_mark(b->history[s->device]);
}

static void probe_take(struct live_blocks_pass *b, struct probe *s)
{
	struct device *d = &b->replay->device[s->device];
	int is_last = s->failure == (int)d->failure_count - 1;

	collect_lifetimes(b, &s->lifetimes, s->device);
	take_history(b, s);
	backward_names_want(&b->names, s->device, is_last_probe(b, s));
	if (s->failure >= 0)
		d->failures[s->failure].largest_free =
			largest_free(b, s->device, d->failures[s->failure].when.reserved);
	if (s->failure >= 0 && !is_last) {
		probe_finish(b, s, d->failures[s->failure].when.time_ns);
		return;
	}
	b->followed[b->followed_count++] = s;
	b->quiet = 1;
	if (s->lifetimes.until_ns > b->followed_until_ns)
		b->followed_until_ns = s->lifetimes.until_ns;
}

static void end_lifetimes(const struct live_blocks_pass *b, const struct mt_record *was,
			  const struct mt_record *by)
{
	for (size_t i = 0; i < b->followed_count; i++)
		lifetimes_end(&b->followed[i]->lifetimes, was, by, b->quiet);
}

static inline void freed(const struct live_blocks_pass *b, const struct mt_record *was,
			 const struct mt_record *by)
{
	const unsigned char *threads = b->tables->thread_flags;

	if (b->has_autograd && threads[was->thread] & THREAD_AUTOGRAD &&
	    !(threads[by->thread] & THREAD_AUTOGRAD) && was->device < MT_MAX_DEVICES)
		account_add(&b->replay->device[was->device].outlived, -by->bytes);
	if (b->followed_count && was->time_ns <= b->followed_until_ns)
		end_lifetimes(b, was, by);
}

/* The history of a block's device; NULL: it has none. */
static inline struct history *history_of(const struct live_blocks_pass *b,
					 const struct mt_record *alloc)
{
	return alloc->kind == MT_TENSOR_ALLOC && alloc->device < MT_MAX_DEVICES
		       ? b->history[alloc->device]
		       : NULL;
}

/* `r` allocates a block (`was` is NULL), or frees the block that `was` allocated. A job that trains
 * has names for the backward pass's blocks, any other job a history of its stacks. */
static inline void note_block(struct live_blocks_pass *b, const struct mt_record *r,
			      const struct mt_record *was)
{
	struct history *history;

	if (b->names.count) {
		backward_names_event(&b->names, r, was);
	} else if (b->history_count) {
		history = history_of(b, was ? was : r);
		if (history && was)
			history_take(history, was);
		else if (history)
			history_add(history, r);
	}
}

static void apply(struct live_blocks_pass *b, const struct mt_record *r, size_t count,
		  size_t readable)
{
	struct mt_record was;

	for (size_t i = 0; i < count; i++) {
		unsigned alloc = event_alloc_kind(r[i].kind);

		if (i + PREFETCH < readable)
			live_set_prefetch(&b->live, event_alloc_kind(r[i + PREFETCH].kind),
					  r[i + PREFETCH].address);
		if (!record_is_valid(&r[i]))
			continue;
		if (!alloc) {
			if (r[i].kind == MT_TENSOR_OOM || r[i].kind == MT_NODE)
				backward_names_event(&b->names, &r[i], NULL);
		} else if (alloc == r[i].kind) {
			b->replay->allocs_twice += !live_set_add(&b->live, &r[i]);
			b->quiet = 0;
			note_block(b, &r[i], NULL);
		} else if (!live_set_take(&b->live, alloc, r[i].address, &was)) {
			b->replay->frees_unknown++;
		} else {
			freed(b, &was, &r[i]);
			note_block(b, &r[i], &was);
		}
	}
}

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	struct live_blocks_pass *b = context;
	size_t done = 0;

	for (; b->next < b->probe_count && b->probes[b->next].at.segment == segment; b->next++) {
		uint64_t upto = b->probes[b->next].at.record;

		if (upto > first + count)
			break;
		if (upto > first + done) {
			apply(b, records + done, (size_t)(upto - first) - done, count - done);
			done = (size_t)(upto - first);
		}
		probe_take(b, &b->probes[b->next]);
	}
	apply(b, records + done, count - done, count - done);
}

static void on_keyframe_begin(void *context)
{
	struct live_blocks_pass *b = context;

	live_set_clear(&b->live);
	backward_names_gap(&b->names);
}

static void on_keyframe(void *context, const struct mt_record *records, size_t count)
{
	struct live_blocks_pass *b = context;

	for (size_t i = 0; i < count; i++)
		if (records[i].kind && event_alloc_kind(records[i].kind) == records[i].kind &&
		    record_is_valid(&records[i]))
			live_set_add(&b->live, &records[i]);
}

static void on_keyframe_end(void *context, uint64_t segment)
{
	struct live_blocks_pass *b = context;

	for (; b->next < b->probe_count; b->next++) {
		struct probe *s = &b->probes[b->next];

		if (s->at.segment != segment || s->at.record)
			break;
		probe_take(b, s);
	}
}

static void on_progress(void *context, double part)
{
	struct live_blocks_pass *b = context;

	b->options->progress(b->options->context, 0.5 + part / 2);
}

static int by_position(const void *a, const void *b)
{
	const struct position *x = &((const struct probe *)a)->at;
	const struct position *y = &((const struct probe *)b)->at;

	if (x->segment != y->segment)
		return ORDER(x->segment, y->segment);
	return x->record < y->record ? -1 : x->record > y->record;
}

static void plan_probes(struct live_blocks_pass *b)
{
	size_t room = 0;

	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		const struct device *d = &b->replay->device[i];

		for (int k = d->peak.allocated > 0 ? -1 : 0; k < (int)d->failure_count; k++) {
			b->probes = grow(b->probes, b->probe_count, &room, sizeof(*b->probes));
			b->probes[b->probe_count++] =
				(struct probe){ .at = k < 0 ? d->peak.at : d->failures[k].when.at,
						.device = i,
						.failure = k };
		}
	}
	if (b->probe_count)
		qsort(b->probes, b->probe_count, sizeof(*b->probes), by_position);
}

static int has_probe(const struct live_blocks_pass *b, int device)
{
	for (size_t i = 0; i < b->probe_count; i++)
		if (b->probes[i].device == device)
			return 1;
	return 0;
}

/* A job that trains has names for the backward pass's blocks, any other job a history of its
 * stacks. */
static void follow_stacks(struct live_blocks_pass *b)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		if (!b->replay->device[i].seen)
			continue;
		if (!b->has_autograd) {
			b->history[i] = history_new(b->tables->stack_count);
			b->history_count++;
		} else if (has_probe(b, i) || b->options->name_all_blocks) {
			backward_names_begin(&b->names, b->replay, i);
		}
	}
}

static void count_final(const struct live_blocks_pass *b, int device)
{
	struct device *d = &b->replay->device[device];

	for (size_t i = 0; i <= b->live.mask; i++)
		if (is_tensor(b, &b->live.slots[i], device)) {
			d->final.bytes = bytes_add(d->final.bytes, b->live.slots[i].bytes);
			d->final.blocks++;
			if (b->tables->thread_flags[b->live.slots[i].thread] & THREAD_AUTOGRAD)
				account_add(&d->outlived, b->live.slots[i].bytes);
		}
}

void replay_live_blocks(struct replay *r, const struct trace *t, const struct replay_options *o)
{
	struct live_blocks_pass b = { .replay = r, .tables = &t->tables, .options = o };
	struct record_visitor w = {
		.context = &b,
		.keyframe_begin = on_keyframe_begin,
		.keyframe = on_keyframe,
		.keyframe_end = on_keyframe_end,
		.records = on_records,
		.progress = o->progress ? on_progress : NULL,
	};

	live_set_init(&b.live);
	backward_names_init(&b.names, r, t, o->name_all_blocks);
	for (size_t i = 0; i < t->tables.thread_count; i++)
		b.has_autograd |= t->tables.thread_flags[i] & THREAD_AUTOGRAD;
	plan_probes(&b);
	follow_stacks(&b);
	r->truncated |= trace_visit(t, &w) < 0;
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		struct device *d = &r->device[i];

		backward_names_end(&b.names, i);
		if (!d->seen)
			continue;
		count_final(&b, i);
		if (o->keep_live)
			d->live = collect(&b, i, 0, &d->live_count);
	}
	for (size_t i = 0; i < b.followed_count; i++)
		probe_finish(&b, b.followed[i], r->last_time_ns);
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		replay_cache(&r->device[i], i, t, b.history[i]);
		history_free(b.history[i]);
	}
	live_set_release(&b.live);
	free(b.probes);
}
