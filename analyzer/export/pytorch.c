/*
 * PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot() of 2.15 writes it: the same keys
 * and types. What a trace does not have: streams and pools (0), requested sizes (the block's size
 * stands there), the wait between a free and its completion.
 */
#include <stdlib.h>

#include "attribution/attribution.h"
#include "export/events.h"
#include "export/pytorch_host.h"
#include "export/pytorch_segments.h"
#include "export/pytorch_settings.h"
#include "export/pytorch_writer.h"

/* Blocks from before a history have no event, as in PyTorch's own file: they are in the
 * segments, or their free shows them. */
static int is_before_history(struct snapshot_writer *w)
{
	int is_before = w->before > 0;

	w->before -= is_before;
	return is_before;
}

static void on_event(void *context, uint64_t sequence, const struct mt_record *r,
		     const struct mt_record *allocated)
{
	struct snapshot_writer *w = context;
	int is_alloc = r->bytes > 0;

	(void)sequence;
	(void)allocated;
	if (r->device != w->device || is_before_history(w))
		return;
	if (input_is_failure(w->in, r)) {
		snapshot_event(w, WORD_oom, r);
	} else if (input_is_block(w->in, r)) {
		if (!is_alloc)
			snapshot_event(w, WORD_free_requested, r);
		snapshot_event(w, is_alloc ? WORD_alloc : WORD_free_completed, r);
	} else if (input_is_segment(w->in, r)) {
		if (r->kind == MT_MAP || r->kind == MT_UNMAP)
			snapshot_event(w, is_alloc ? WORD_segment_map : WORD_segment_unmap, r);
		else
			snapshot_event(w, is_alloc ? WORD_segment_alloc : WORD_segment_freed, r);
	}
}

static void on_live(void *context, const struct mt_record *allocated)
{
	struct snapshot_writer *w = context;

	if (!input_is_block(w->in, allocated) && !input_is_segment(w->in, allocated))
		return;
	w->live = grow(w->live, w->live_count, &w->live_room, sizeof(*w->live));
	w->live[w->live_count++] = *allocated;
}

/* A list for each device up to the last one that was seen. */
static void put_traces(struct snapshot_writer *w)
{
	unsigned count = 0;

	for (unsigned i = 0; i < MT_MAX_DEVICES; i++)
		if (w->in->replay.device[i].seen)
			count = i + 1;
	snapshot_word(w, WORD_device_traces);
	pickle_list(&w->pickle);
	pickle_group(&w->pickle);
	for (w->device = 0; w->device < count; w->device++) {
		const struct event_sink sink = { .context = w,
						 .until = w->in->until,
						 .event = on_event,
						 .live = w->device ? NULL : on_live };

		w->before = input_before(w->in, w->device);
		pickle_list(&w->pickle);
		(void)events_visit(&w->in->trace, &sink); /* what a cut file still has */
		snapshot_list_end(w);
	}
	pickle_append_items(&w->pickle);
}

static void put_annotation(struct snapshot_writer *w, enum snapshot_word stage, unsigned device,
			   uint32_t step, uint64_t time_ns)
{
	struct pickle *p = &w->pickle;
	char *name = xasprintf("step %u", step);

	snapshot_item(w);
	pickle_dict(p);
	pickle_group(p);
	snapshot_word(w, WORD_stage);
	snapshot_word(w, stage);
	snapshot_word(w, WORD_name);
	pickle_word(p, name);
	snapshot_number(w, WORD_device, device);
	snapshot_number(w, WORD_time_us, (int64_t)(input_real_ns(w->in, time_ns) / 1000));
	pickle_set_items(p);
	free(name);
}

/* The steps, as record_function() marks them. */
static void put_annotations(struct snapshot_writer *w)
{
	snapshot_word(w, WORD_external_annotations);
	pickle_list(&w->pickle);
	for (unsigned d = 0; d < MT_MAX_DEVICES; d++) {
		const struct spans *s = &w->in->replay.device[d].spans;
		uint32_t open = 0;

		for (size_t i = 0; i < s->count && s->list[i].start_ns <= w->in->end_ns; i++) {
			uint32_t step = span_step(&s->list[i]);

			if (step == open)
				continue;
			if (open)
				put_annotation(w, WORD_END, d, open, s->list[i].start_ns);
			open = step;
			if (open)
				put_annotation(w, WORD_START, d, open, s->list[i].start_ns);
		}
		if (open)
			put_annotation(w, WORD_END, d, open, w->in->end_ns);
	}
	snapshot_list_end(w);
}

/* The traces come first: they tell what is live at their end. */
static void put_snapshot(struct snapshot_writer *w)
{
	pickle_begin(&w->pickle, &w->x->out);
	pickle_dict(&w->pickle);
	pickle_group(&w->pickle);
	put_traces(w);
	snapshot_segments(w);
	snapshot_settings(w);
	put_annotations(w);
	snapshot_host(w);
	pickle_set_items(&w->pickle);
	pickle_end(&w->pickle);
}

/* An array of numbers, none given out yet. */
static uint32_t *no_numbers(size_t count)
{
	uint32_t *numbers = xcalloc(count, sizeof(*numbers));

	for (size_t i = 0; i < count; i++)
		numbers[i] = NOT_REMEMBERED;
	return numbers;
}

static int add(struct export *x, const struct input *in, struct err *e)
{
	const struct tables *t = &in->trace.tables;
	struct snapshot_writer w = { .x = x,
				     .in = in,
				     .pool = NOT_REMEMBERED,
				     .strings = no_numbers(t->string_count),
				     .frames = no_numbers(t->frame_count),
				     .stacks = no_numbers(t->stack_count),
				     .threads = no_numbers(1u << 16) };

	(void)e;
	for (size_t i = 0; i < SNAPSHOT_WORDS; i++)
		w.words[i] = NOT_REMEMBERED;
	put_snapshot(&w);
	free(w.strings);
	free(w.frames);
	free(w.stacks);
	free(w.threads);
	free(w.live);
	return 0;
}

const struct export_writer export_pytorch = { .add = add };
