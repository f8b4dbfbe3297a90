#include "report/report_build.h"

#include "attribution/stack_text.h"
#include "attribution/attribution.h"
#include "report/report_metrics.h"
#include "report/report_owners.h"
#include "report/report_marks.h"
#include "report/report_steps.h"
#include "report/report_warnings.h"
#include "util/buf.h"
#include "util/order.h"
#include "util/shell.h"
#include "util/glob.h"
#include "util/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit for the text of stacks in a report: a hostile file could repeat a large stack. */
#define MAX_STACK_TEXT (256u << 20)
#define OOM_STACKS 10

struct builder {
	const struct trace *trace;
	const struct replay *replay;
	const struct device *device;
	struct rank *rank;
	const char **stack_texts;   /* made so far, by stack */
	const char **thread_stacks; /* the same for blocks without frames, by thread */
	size_t stack_text;
	const struct metrics *metrics; /* of all devices */
};

static char *keep(struct rank *r, char *text)
{
	r->pool = grow(r->pool, r->pool_count, &r->pool_room, sizeof(*r->pool));
	return r->pool[r->pool_count++] = text;
}

static char *keep_stack(struct rank *r, char *text)
{
	r->live_pool =
		grow(r->live_pool, r->live_pool_count, &r->live_pool_room, sizeof(*r->live_pool));
	return r->live_pool[r->live_pool_count++] = text;
}

static char *clean(struct rank *r, struct str text)
{
	struct buf b = { 0 };

	buf_add_clean(&b, text);
	return keep(r, buf_take(&b));
}

static char *thread_name(struct builder *b, uint32_t thread)
{
	struct thread t = tables_thread(&b->trace->tables, thread);

	return t.name.length ? clean(b->rank, t.name) : NULL;
}

static const char *thread_stack_of(struct builder *b, uint16_t thread)
{
	const struct tables *t = &b->trace->tables;
	/* Threads that the trace does not describe have one text. */
	const char **known = &b->thread_stacks[thread < t->thread_count ? thread : t->thread_count];

	struct buf text = { 0 };

	if (!*known) {
		stack_add_missing(t, thread, &text);
		*known = keep_stack(b->rank, buf_take(&text));
	}
	return *known;
}

/* The text of a stack, or of blocks without frames the thread that made them. */
static const char *stack_of(struct builder *b, uint32_t stack, uint16_t thread)
{
	const struct tables *t = &b->trace->tables;
	struct buf text = { 0 };

	if (stack >= t->stack_count)
		stack = MT_NO_STACK;
	if (!tables_stack(t, stack)->frame_count)
		return thread_stack_of(b, thread);
	if (!b->stack_texts[stack]) {
		if (b->stack_text < MAX_STACK_TEXT)
			stack_add_text(t, stack, &text);
		b->stack_text += text.length;
		b->stack_texts[stack] = keep_stack(b->rank, buf_take(&text));
	}
	return b->stack_texts[stack];
}

static char *label_of(struct builder *b, const struct block_group *g)
{
	struct origin o = backward_origin_at(&b->device->backward, g->origin);
	struct buf text = { 0 };

	stack_add_label(&b->trace->tables, g->stack, &text);
	if (!text.length && (uint64_t)g->largest < b->trace->header.stack_min) {
		buf_puts(&text, "(blocks under ");
		size_add(&text, (bytes)b->trace->header.stack_min, 0);
		buf_puts(&text, stack_of(b, g->stack, g->thread) + strlen("(no Python stack"));
	} else if (!text.length && !origin_add_node(&o, &b->trace->tables, &text)) {
		buf_puts(&text, stack_of(b, g->stack, g->thread));
	}
	return buf_take(&text);
}

/* The line that asked for memory; NULL: the stack has no frames. */
static char *place_of(struct builder *b, uint32_t stack)
{
	struct buf text = { 0 };

	stack_add_label(&b->trace->tables, stack, &text);
	return text.length ? keep(b->rank, buf_take(&text)) : NULL;
}

static char *backward_of(struct builder *b, const struct block_group *g)
{
	struct origin o = backward_origin_at(&b->device->backward, g->origin);
	struct buf text = { 0 };

	if (o.stack)
		origin_add_label(&o, &b->trace->tables, &text);
	return o.stack ? buf_take(&text) : NULL;
}

static char *inner_of(struct builder *b, const struct block_group *g)
{
	struct buf text = { 0 };

	stack_add_inner(&b->trace->tables, g->stack, &text);
	return buf_take(&text);
}

static char *module_of(struct builder *b, const struct block_group *g)
{
	struct buf text = { 0 };

	stack_add_module(&b->trace->tables, g->stack, &text);
	return buf_take(&text);
}

static struct stacks stacks_of(struct builder *b, const struct snapshot *s, size_t most)
{
	struct stacks to = { .bytes = s->bytes,
			     .blocks = s->blocks,
			     .count = s->count < most ? s->count : most };

	to.rows = xcalloc(to.count, sizeof(*to.rows));
	for (size_t i = 0; i < to.count; i++) {
		const struct block_group *g = &s->groups[i];

		to.rows[i] = (struct stack_row){
			.stack = xstrdup(stack_of(b, g->stack, g->thread)),
			.label = label_of(b, g),
			.backward_of = backward_of(b, g),
			.inner = inner_of(b, g),
			.module = module_of(b, g),
			.bytes = g->bytes,
			.smallest = g->smallest,
			.largest = g->largest,
			.blocks = g->blocks,
			.category = (enum category)g->category,
		};
	}
	return to;
}

/* `live`: the live blocks, or NULL. */
static struct point point_of(struct builder *b, const struct moment *m, const struct snapshot *live)
{
	struct point p = {
		.time_s = (double)m->time_ns / 1e9,
		.allocated = m->allocated,
		.reserved = m->reserved,
		.other = m->other,
		.untracked = m->untracked,
		.step = m->step,
		.phase = phase_name((enum phase)m->phase),
		.part = phase_part_name((enum phase_part)m->part),
		.thread = thread_name(b, m->thread),
	};

	if (live)
		memcpy(p.by_category, live->by_category, sizeof(p.by_category));
	return p;
}

static void add_ooms(struct builder *b, const struct device *d)
{
	struct rank *r = b->rank;
	const struct tables *t = &b->trace->tables;
	uint64_t most = (uint64_t)(r->total == UNKNOWN_BYTES ? INT64_MAX : r->total);

	r->ooms = xcalloc(d->failure_count, sizeof(*r->ooms));
	r->oom_count = d->failure_count;
	r->ooms_seen = d->failures_seen;
	for (size_t i = 0; i < d->failure_count; i++) {
		const struct failure *f = &d->failures[i];
		struct oom *o = &r->ooms[i];

		*o = (struct oom){
			.when = point_of(b, &f->when, &f->live),
			.requested = f->requested,
			.segment = f->segment ? f->segment : UNKNOWN_BYTES,
			.in_convolution =
				(tables_stack_info(t, f->stack)->tags & TAGGED(CONVOLUTION)) != 0,
			.free = f->free > most ? UNKNOWN_BYTES : (bytes)f->free,
			.largest_free = f->largest_free < 0 ? UNKNOWN_BYTES : f->largest_free,
			.survived = failure_survived(f) ? SURVIVED_YES
				    : r->imported       ? SURVIVED_UNKNOWN
							: SURVIVED_NO,
			.stacks = stacks_of(b, &f->live, OOM_STACKS),
		};
		if (!r->imported)
			report_add_failure_owners(o, f, r->total);
		o->place = place_of(b, f->stack);
		if (f->from_runtime)
			o->by = clean(r, tables_module(t, tables_stack(t, f->stack)->module));
	}
}

/* A running counter of the header; 0 if it is damaged. */
static bytes counter(uint64_t value)
{
	return value > (uint64_t)BYTES_LIMIT ? 0 : (bytes)value;
}

/* Can the moment of a record be replayed? `number`: its index plus 1; 0: unknown. */
static int is_in_trace(const struct trace *t, uint64_t number)
{
	for (size_t i = 0; number && i < t->segment_count; i++) {
		const struct segment *s = &t->segments[i];

		if (number > s->first_sequence && number - s->first_sequence <= s->events.records)
			return !s->gap || s->has_keyframe;
	}
	return 0;
}

/* Is the peak of a counter higher than the recorded one, and its moment not in the trace? */
static int is_lost(const struct builder *b, bytes recorded, uint64_t counted, uint64_t number)
{
	return counter(counted) > recorded && !is_in_trace(b->trace, number);
}

static void add_peaks(struct builder *b, const struct device *d, const struct mt_device *running,
		      int incomplete)
{
	struct rank *r = b->rank;

	r->peak = point_of(b, &d->peak, &d->at_peak);
	r->device_peak = point_of(b, &d->device_peak, NULL);
	r->peak_allocated = d->peak.allocated;
	r->peak_reserved = d->reserved_peak;
	r->peak_device = moment_device(&d->device_peak);
	if (incomplete && !b->replay->marks.wanted) {
		r->peak_allocated = larger_of(r->peak_allocated, counter(running->allocated_peak));
		r->peak_reserved = larger_of(r->peak_reserved, counter(running->reserved_peak));
		r->peak_device = larger_of(r->peak_device, counter(running->device_peak));
		r->peak.unrecorded = r->peak_allocated > d->peak.allocated;
		r->device_peak.unrecorded =
			is_lost(b, moment_device(&d->device_peak), running->device_peak,
				running->device_peak_sequence);
		report_warn_of_moments(r, d, running);
	}
	if (r->imported)
		r->peak_device = UNKNOWN_BYTES;
	r->stacks = stacks_of(b, &d->at_peak, SIZE_MAX);
	/* Bytes that the trace lacks have no category. */
	r->peak.by_category[CATEGORY_OTHER] += larger_of(r->peak_allocated - r->stacks.bytes, 0);
}

static void add_live(struct builder *b, const struct device *d)
{
	struct rank *r = b->rank;

	r->has_live = 1;
	r->live = xcalloc(d->live_count, sizeof(*r->live));
	r->live_count = d->live_count;
	for (size_t i = 0; i < d->live_count; i++)
		r->live[i] = (struct live_row){
			.address = d->live[i].address,
			.bytes = d->live[i].bytes,
			.stack = stack_of(b, d->live[i].stack, d->live[i].thread),
		};
}

static void add_peak_blocks(struct builder *b, const struct lifetimes *l)
{
	struct rank *r = b->rank;

	r->peak_blocks = xcalloc(l->count, sizeof(*r->peak_blocks));
	r->peak_block_count = l->count;
	for (size_t i = 0; i < l->count; i++)
		r->peak_blocks[i] = (struct peak_block){
			.bytes = l->list[i].alloc.bytes,
			.category = (enum category)l->list[i].category,
			.stack = stack_of(b, l->list[i].alloc.stack, l->list[i].alloc.thread),
		};
}

/* The command line, quoted for a shell. */
static char *command_of(struct rank *r, const struct tables *t)
{
	struct str argv = tables_argv(t);
	struct buf b = { 0 }, safe = { 0 };
	size_t i = 0, n;

	if (!argv.length)
		return NULL;
	for (; i < argv.length; i += n + 1) {
		const char *word = argv.at + i;

		n = strnlen(word, argv.length - i);
		if (i)
			buf_puts(&b, " ");
		shell_add_word(&b, (struct str){ word, n });
	}
	buf_add_utf8(&safe, (struct str){ b.text, b.length });
	buf_release(&b);
	return keep(r, buf_take(&safe));
}

static const struct meta *device_entry(const struct rank *r, const struct tables *t,
				       const char *prefix)
{
	char key[32];

	snprintf(key, sizeof(key), "%s%d", prefix, r->device);
	return tables_meta(t, key);
}

static char *device_meta(struct rank *r, const struct tables *t, const char *prefix)
{
	const struct meta *found = device_entry(r, t, prefix);

	return found ? clean(r, found->value) : NULL;
}

static void add_meta(struct builder *b)
{
	const struct tables *t = &b->trace->tables;
	struct rank *r = b->rank;
	const struct meta *scope = device_entry(r, t, MT_META_PEAK_OF);
	size_t room = 0;

	r->peak_of = scope ? peak_scope_find(scope->value) : PEAK_OF_JOB;
	r->command = command_of(r, t);
	r->gpu = device_meta(r, t, MT_META_GPU_NAME);
	r->gpu_uuid = device_meta(r, t, MT_META_GPU_UUID);
	r->gpu_pci = device_meta(r, t, MT_META_GPU_PCI);
	for (size_t i = 0; i < t->meta_count; i++) {
		const struct meta *m = &t->meta[i];

		if (str_matches(m->key, MT_META_VERSION "*")) {
			size_t skip = strlen(MT_META_VERSION);

			r->versions =
				grow(r->versions, r->version_count, &room, sizeof(*r->versions));
			r->versions[r->version_count++] = (struct version){
				clean(r, (struct str){ m->key.at + skip, m->key.length - skip }),
				clean(r, m->value)
			};
		} else if (str_matches(m->key, MT_META_NOTE "*") && m->value.length) {
			report_warn(r, "%.*s",
				    (int)(m->value.length > 2000 ? 2000 : m->value.length),
				    m->value.at);
		}
	}
}

static int failed_for_memory(const struct replay *p)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		if (p->device[i].ran_out)
			return 1;
	return 0;
}

static enum end end_of(const struct trace *t, const struct replay *p)
{
	if (t->header.state == MT_STATE_ENDED)
		return t->header.exit_status && failed_for_memory(p) ? END_OOM : END_EXIT;
	if (t->lock == LOCK_HELD)
		return END_RUNNING;
	if (t->lock == LOCK_UNKNOWN)
		return END_UNKNOWN;
	return failed_for_memory(p) ? END_OOM : END_KILLED;
}

static struct rank start_rank(const struct trace *t, const struct replay *p, int device)
{
	const struct mt_header *h = &t->header;
	struct rank r = {
		.rank = h->rank < 0 ? NO_RANK : h->rank,
		.local_rank = h->local_rank < 0 ? NO_RANK : h->local_rank,
		.world_size = h->world_size < 0 ? NO_RANK : h->world_size,
		.restart_count = h->restart_count < 0 ? NO_RANK : h->restart_count,
		.node = h->rank >= 0 && h->local_world_size > 0 ? h->rank / h->local_world_size
								: NO_RANK,
		.device = device,
		.pid = h->pid,
		.simulated = (h->flags & MT_FLAG_SIMULATED) != 0,
		.start_realtime_ns =
			h->start_realtime_ns > INT64_MAX ? 0 : (int64_t)h->start_realtime_ns,
		.ended = h->state == MT_STATE_ENDED,
		.exit_status = h->exit_status,
		.imported = trace_is_imported(t),
		.end = trace_is_imported(t) ? END_UNKNOWN : end_of(t, p),
	};
	uint64_t end = r.ended && h->end_ns > p->last_time_ns ? h->end_ns : p->last_time_ns;

	r.duration_s = (double)end / 1e9;
	r.trace = keep(&r, xstrdup(t->path));
	r.host = clean(&r, (struct str){ h->host, strlen(h->host) });
	r.run_id = clean(&r, (struct str){ h->run_id, strlen(h->run_id) });
	return r;
}

static void add_device(struct report *report, struct builder *b, int ordinal, int first)
{
	const struct device *d = &b->replay->device[ordinal];
	const struct mt_device *running = &b->trace->header.device[ordinal];
	const struct mt_header *h = &b->trace->header;
	struct rank r = start_rank(b->trace, b->replay, ordinal);
	int incomplete = h->lost_events || h->reused_records || b->replay->given_up ||
			 b->replay->open_gaps || b->trace->truncated ||
			 h->state == MT_STATE_STOPPED || h->lost_reason == MT_LOST_NOT_CHOSEN;

	b->rank = &r;
	b->device = d;
	b->stack_texts = xcalloc(b->trace->tables.stack_count, sizeof(*b->stack_texts));
	b->thread_stacks = xcalloc(b->trace->tables.thread_count + 1, sizeof(*b->thread_stacks));
	b->stack_text = 0;
	r.total = d->total                        ? d->total
		  : counter(running->total_bytes) ? counter(running->total_bytes)
						  : UNKNOWN_BYTES;
	r.counted_from_runtime = d->counted_from_runtime;
	r.events = device_events(d) + (first ? b->replay->host_events : 0);
	r.tensor_allocs = d->tensor_allocs;
	r.tensor_frees = d->tensor_frees;
	r.final_reserved = d->now.reserved;
	r.final_bytes = d->final.bytes;
	r.final_blocks = d->final.blocks;
	add_meta(b);
	report_add_warnings(&r, b->trace, b->replay);
	report_warn_of_simulation(&r, b->trace);
	add_peaks(b, d, running, incomplete);
	if (!r.imported)
		report_add_owners(&r, d,
				  r.device_peak.unrecorded
					  ? 0
					  : r.peak_device - moment_device(&d->device_peak));
	report_add_communicators(&r, d, &b->trace->tables);
	report_add_steps(&r, d, b->replay->last_time_ns);
	report_add_beside(&r, d, &b->replay->host);
	add_ooms(b, d);
	report_add_marks(&r, b->trace, b->replay, ordinal);
	if (d->seen)
		report_keep_metrics(&r, &b->metrics[ordinal], &b->trace->tables);
	if (d->timeline)
		report_add_timeline(&r, d->timeline);
	if (d->live)
		add_live(b, d);
	if (d->peak_blocks.list)
		add_peak_blocks(b, &d->peak_blocks);
	free(b->stack_texts);
	free(b->thread_stacks);
	b->rank = NULL;
	report->ranks = grow(report->ranks, report->count, &report->room, sizeof(*report->ranks));
	report->ranks[report->count++] = r;
}

void report_add(struct report *r, struct trace *t, const struct config *c,
		const struct replay_options *options)
{
	struct replay replay;
	struct metrics metrics[MT_MAX_DEVICES];
	struct builder b = { .trace = t, .replay = &replay, .metrics = metrics };
	size_t before = r->count;

	replay_trace(&replay, t, options);
	metrics_compute(metrics, t, c, &replay, options->measures_need);
	for (int i = 0; i < MT_MAX_DEVICES; i++) {
		const struct mt_device *running = &t->header.device[i];

		if (replay.device[i].seen || running->allocs || running->allocated_peak ||
		    running->device_peak)
			add_device(r, &b, i, r->count == before);
	}
	if (r->count == before)
		add_device(r, &b, 0, 1);
	replay_release(&replay);
}
