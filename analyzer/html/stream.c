#include "html/stream.h"

#include <stdlib.h>
#include <string.h>

#include "replay/accounting.h"
#include "trace/event.h"

void stream_init(struct stream *s, const struct tables *t, int device)
{
	*s = (struct stream){ .device = device, .tables = t };
	live_set_init(&s->live);
}

void stream_release(struct stream *s)
{
	live_set_release(&s->live);
	free(s->kinds);
	free(s->times);
	free(s->blocks);
	free(s->freed);
	free(s->segments);
	free(s->ended);
	free(s->levels);
	free(s->restored);
	*s = (struct stream){ 0 };
}

static void on_begin(void *context)
{
	struct stream *s = context;
	const struct tables *t = s->tables;
	int device = s->device;

	stream_release(s);
	stream_init(s, t, device);
}

/* Times of different threads may go back by a little; the page's do not. */
static void add_event(struct stream *s, enum stream_kind kind, uint64_t time_ns)
{
	uint64_t before = s->events ? s->times[s->events - 1] : 0;

	s->kinds = grow(s->kinds, s->events, &s->kinds_room, sizeof(*s->kinds));
	s->times = grow(s->times, s->events, &s->times_room, sizeof(*s->times));
	s->kinds[s->events] = (unsigned char)kind;
	s->times[s->events++] = time_ns > before ? time_ns : before;
}

static void add_index(uint32_t **list, size_t *count, size_t *room, uint32_t index)
{
	*list = grow(*list, *count, room, sizeof(**list));
	(*list)[(*count)++] = index;
}

static void add_levels(struct stream *s, uint32_t event, const bytes levels[STREAM_SERIES])
{
	for (uint32_t i = 0; i < STREAM_SERIES; i++) {
		if (levels[i] == s->now[i])
			continue;
		s->levels = grow(s->levels, s->level_count, &s->level_room, sizeof(*s->levels));
		s->levels[s->level_count++] = (struct stream_level){ event, i, levels[i] };
		s->now[i] = levels[i];
	}
}

static void current_levels(const struct device *d, bytes levels[STREAM_SERIES])
{
	levels[0] = d->now.reserved;
	account_owners(d, levels + 1);
}

static void remember(struct stream *s, const struct mt_record *r, size_t index)
{
	struct mt_record slot = *r;

	slot.stack = (uint32_t)index;
	live_set_add(&s->live, &slot);
}

static void free_block(struct stream *s, uint32_t index, const struct mt_record *r)
{
	struct stream_block *b = &s->blocks[index];

	b->life.freed_ns = r->time_ns;
	b->life.freed_stack = r->stack;
	b->life.freed_thread = r->thread;
	b->life.is_transient = s->quiet && index + 1 == s->block_count;
	b->freed = (uint32_t)s->events;
	add_index(&s->freed, &s->freed_count, &s->freed_room, index);
	add_event(s, STREAM_FREE, r->time_ns);
}

static void end_segment(struct stream *s, uint32_t index, uint64_t time_ns)
{
	s->segments[index].kind = 0;
	add_index(&s->ended, &s->ended_count, &s->ended_room, index);
	add_event(s, STREAM_SEGMENT_END, time_ns);
}

static void free_slot(struct stream *s, const struct mt_record *slot, const struct mt_record *r)
{
	if (slot->kind == MT_TENSOR_ALLOC || slot->thread)
		free_block(s, slot->stack, r);
	else
		end_segment(s, slot->stack, r->time_ns);
}

static void add_block(struct stream *s, const struct mt_record *r, uint64_t time_ns)
{
	struct mt_record slot = *r, was;

	if (live_set_take(&s->live, r->kind, r->address, &was))
		free_slot(s, &was, r);
	slot.thread = 1; /* of the live set: a block, not a segment */
	remember(s, &slot, s->block_count);
	s->blocks = grow(s->blocks, s->block_count, &s->block_room, sizeof(*s->blocks));
	s->blocks[s->block_count++] =
		(struct stream_block){ .life = { .alloc = *r, .freed_ns = LIFETIME_OPEN },
				       .allocated = (uint32_t)s->events,
				       .freed = STREAM_NEVER,
				       .confirmed = 1 };
	s->quiet = 1;
	add_event(s, STREAM_ALLOC, time_ns);
}

static void add_segment(struct stream *s, const struct mt_record *r, uint64_t time_ns)
{
	struct mt_record slot = *r, was;

	if (live_set_take(&s->live, r->kind, r->address, &was))
		free_slot(s, &was, r);
	slot.thread = 0;
	remember(s, &slot, s->segment_count);
	s->segments = grow(s->segments, s->segment_count, &s->segment_room, sizeof(*s->segments));
	s->segments[s->segment_count++] =
		(struct stream_segment){ r->address, r->bytes, r->stack, r->kind, 1 };
	add_event(s, STREAM_SEGMENT, time_ns);
}

/* Levels of a sample wait for the next event: if that creates a communicator, its bytes are those
 * that the sample could not explain, and the levels are those of its device, `comm` (otherwise
 * NULL). */
static void flush_sample(struct stream *s, const struct device *comm)
{
	bytes levels[STREAM_SERIES];

	if (!s->sample.is_due)
		return;
	s->sample.is_due = 0;
	if (comm)
		current_levels(comm, levels);
	add_levels(s, s->sample.event, comm ? levels : s->sample.levels);
}

void stream_end(struct stream *s)
{
	flush_sample(s, NULL);
}

static void on_memory(struct stream *s, const struct device *d, const struct mt_record *r,
		      unsigned alloc)
{
	struct mt_record was;

	if (alloc == r->kind) {
		s->quiet = 0;
		if (account_is_block(d, s->tables, r))
			add_block(s, r, r->time_ns);
		else if (account_is_segment(d, s->tables, r))
			add_segment(s, r, r->time_ns);
	} else if (live_set_take(&s->live, alloc, r->address, &was)) {
		free_slot(s, &was, r);
	}
}

static void on_event(void *context, const struct device *d, const struct mt_record *r)
{
	struct stream *s = context;
	bytes levels[STREAM_SERIES];
	unsigned alloc = event_alloc_kind(r->kind);
	size_t before = s->events;

	if (r->device != s->device || s->events >= STREAM_NEVER - 8)
		return;
	flush_sample(s, r->kind == MT_COMM_INIT ? d : NULL);
	if (alloc)
		on_memory(s, d, r, alloc);
	else if (account_is_failure(d, s->tables, r))
		add_event(s, STREAM_FAILURE, r->time_ns);
	if (r->kind == MT_TENSOR_ALLOC || r->kind == MT_TENSOR_FREE)
		return;
	current_levels(d, levels);
	if (!memcmp(levels, s->now, sizeof(levels)))
		return;
	if (s->events == before)
		add_event(s, STREAM_LEVELS, r->time_ns);
	if (r->kind == MT_DEVICE_SAMPLE) {
		memcpy(s->sample.levels, levels, sizeof(levels));
		s->sample.event = (uint32_t)s->events - 1;
		s->sample.is_due = 1;
		return;
	}
	add_levels(s, (uint32_t)s->events - 1, levels);
}

static void on_gap(void *context)
{
	struct stream *s = context;

	stream_end(s);
	for (size_t i = 0; i < s->block_count; i++)
		s->blocks[i].confirmed = 0;
	for (size_t i = 0; i < s->segment_count; i++)
		s->segments[i].confirmed = 0;
	add_event(s, STREAM_GAP, 0);
}

static void on_restored(void *context, const struct mt_record *r)
{
	struct stream *s = context;

	if (r->device != s->device || event_alloc_kind(r->kind) != r->kind)
		return;
	s->restored = grow(s->restored, s->restored_count, &s->restored_room, sizeof(*s->restored));
	s->restored[s->restored_count++] = *r;
}

/* Is it live in the stream, as the same block or segment as before the gap? */
static int confirm(struct stream *s, const struct mt_record *r)
{
	const struct mt_record *was = live_set_find(&s->live, r->kind, r->address);

	if (!was || was->time_ns != r->time_ns || was->bytes != r->bytes)
		return 0;
	if (was->thread)
		s->blocks[was->stack].confirmed = 1;
	else
		s->segments[was->stack].confirmed = 1;
	return 1;
}

/* A block that was live before a gap and is not live after it was freed in between. */
static void end_unconfirmed(struct stream *s, uint64_t time_ns)
{
	for (size_t i = 0; i < s->block_count; i++) {
		struct stream_block *b = &s->blocks[i];
		struct mt_record was;

		if (b->freed != STREAM_NEVER || b->confirmed ||
		    !live_set_take(&s->live, b->life.alloc.kind, b->life.alloc.address, &was))
			continue;
		free_block(s, (uint32_t)i,
			   &(struct mt_record){ .time_ns = time_ns, .thread = MT_NO_THREAD });
	}
	for (size_t i = 0; i < s->segment_count; i++) {
		const struct stream_segment *x = &s->segments[i];
		struct mt_record was;

		if (x->kind && !x->confirmed && live_set_take(&s->live, x->kind, x->address, &was))
			end_segment(s, (uint32_t)i, time_ns);
	}
}

static void on_gap_end(void *context, const struct device *d, int device, uint64_t time_ns)
{
	struct stream *s = context;
	bytes levels[STREAM_SERIES];

	if (device != s->device)
		return;
	for (size_t i = 0; i < s->restored_count; i++)
		if (confirm(s, &s->restored[i]))
			s->restored[i].kind = 0;
	end_unconfirmed(s, time_ns);
	for (size_t i = 0; i < s->restored_count; i++) {
		const struct mt_record *r = &s->restored[i];

		if (r->kind && account_is_block(d, s->tables, r))
			add_block(s, r, time_ns);
		else if (r->kind && account_is_segment(d, s->tables, r))
			add_segment(s, r, time_ns);
	}
	s->restored_count = 0;
	current_levels(d, levels);
	add_event(s, STREAM_LEVELS, time_ns);
	add_levels(s, (uint32_t)s->events - 1, levels);
}

struct replay_observer stream_observer(struct stream *s)
{
	return (struct replay_observer){ .context = s,
					 .begin = on_begin,
					 .event = on_event,
					 .gap = on_gap,
					 .restored = on_restored,
					 .gap_end = on_gap_end };
}
