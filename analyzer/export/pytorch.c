/*
 * PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot() of 2.15 writes it: the same keys
 * and types. What a trace does not have: streams and pools (0), requested sizes (the block's size
 * stands there), the wait between a free and its completion.
 */
#include "export/pytorch.h"

#include <stdlib.h>

#include "attribution/attribution.h"
#include "attribution/stack_text.h"
#include "export/events.h"

#define GROUP                                                                              \
	1000 /* items of a list that a reader keeps on its stack at a time, as pickle.py's \
	      */

void snapshot_word(struct snapshot_writer *w, enum snapshot_word word)
{
	static const char *const words[SNAPSHOT_WORDS] = {
#define WORD(id, text) [WORD_##id] = text,
#include "export/pytorch.def"
#undef WORD
	};

	if (w->words[word] != NOT_REMEMBERED) {
		pickle_again(&w->pickle, w->words[word]);
		return;
	}
	pickle_word(&w->pickle, words[word]);
	w->words[word] = pickle_remember(&w->pickle);
}

void snapshot_number(struct snapshot_writer *w, enum snapshot_word key, int64_t value)
{
	snapshot_word(w, key);
	pickle_integer(&w->pickle, value);
}

static void put_string(struct snapshot_writer *w, uint32_t id)
{
	struct str s = tables_string(&w->in->trace.tables, id);
	struct buf clean = { 0 };

	if (id >= w->in->trace.tables.string_count)
		id = 0;
	if (w->strings[id] != NOT_REMEMBERED) {
		pickle_again(&w->pickle, w->strings[id]);
		return;
	}
	buf_add_utf8(&clean, s);
	pickle_text(&w->pickle, (struct str){ clean.length ? clean.text : "", clean.length });
	w->strings[id] = pickle_remember(&w->pickle);
	buf_release(&clean);
}

static void put_frame(struct snapshot_writer *w, uint32_t id)
{
	const struct mt_frame *f = tables_frame(&w->in->trace.tables, id);
	struct pickle *p = &w->pickle;

	if (w->frames[id] != NOT_REMEMBERED) {
		pickle_again(p, w->frames[id]);
		return;
	}
	pickle_dict(p);
	w->frames[id] = pickle_remember(p);
	pickle_group(p);
	snapshot_word(w, WORD_name);
	put_string(w, f->function);
	snapshot_word(w, WORD_filename);
	put_string(w, f->file);
	snapshot_number(w, WORD_line, f->line);
	pickle_set_items(p);
}

/* One frame without a file instead of none: readers take what has no frames for the backward pass,
 * whose threads have none. */
static void put_missing_stack(struct snapshot_writer *w, uint16_t thread)
{
	struct pickle *p = &w->pickle;
	struct buf name = { 0 };

	if (w->threads[thread] != NOT_REMEMBERED) {
		pickle_again(p, w->threads[thread]);
		return;
	}
	stack_add_missing(&w->in->trace.tables, thread, &name);
	pickle_list(p);
	w->threads[thread] = pickle_remember(p);
	pickle_group(p);
	pickle_dict(p);
	pickle_group(p);
	snapshot_word(w, WORD_name);
	pickle_text(p, (struct str){ name.text, name.length });
	snapshot_word(w, WORD_filename);
	snapshot_word(w, WORD_empty);
	snapshot_number(w, WORD_line, 0);
	pickle_set_items(p);
	pickle_append_items(p);
	buf_release(&name);
}

void snapshot_frames(struct snapshot_writer *w, const struct mt_record *r)
{
	const struct tables *t = &w->in->trace.tables;
	uint32_t stack = r->stack < t->stack_count ? r->stack : MT_NO_STACK;
	const struct stack *s = tables_stack(t, stack);
	struct pickle *p = &w->pickle;

	snapshot_word(w, WORD_frames);
	if (!s->frame_count && t->thread_flags[r->thread] != THREAD_AUTOGRAD) {
		put_missing_stack(w, r->thread);
		return;
	}
	if (w->stacks[stack] != NOT_REMEMBERED) {
		pickle_again(p, w->stacks[stack]);
		return;
	}
	pickle_list(p);
	w->stacks[stack] = pickle_remember(p);
	pickle_group(p);
	for (uint32_t i = 0; i < s->frame_count; i++)
		put_frame(w, s->frames[i]);
	pickle_append_items(p);
}

void snapshot_item(struct snapshot_writer *w)
{
	if (w->in_group == GROUP) {
		pickle_append_items(&w->pickle);
		w->in_group = 0;
	}
	if (!w->in_group++)
		pickle_group(&w->pickle);
}

void snapshot_list_end(struct snapshot_writer *w)
{
	if (w->in_group)
		pickle_append_items(&w->pickle);
	w->in_group = 0;
}

void snapshot_event(struct snapshot_writer *w, enum snapshot_word action, const struct mt_record *r)
{
	struct pickle *p = &w->pickle;
	int is_oom = action == WORD_oom;

	snapshot_item(w);
	pickle_dict(p);
	pickle_group(p);
	snapshot_word(w, WORD_action);
	snapshot_word(w, action);
	snapshot_number(w, is_oom ? WORD_device_free : WORD_addr,
			is_oom && r->address == MT_UNKNOWN ? 0 : (int64_t)r->address);
	snapshot_number(w, WORD_size, r->bytes < 0 ? -r->bytes : r->bytes);
	snapshot_number(w, WORD_stream, 0);
	snapshot_number(w, WORD_time_us, (int64_t)(input_real_ns(w->in, r->time_ns) / 1000));
	snapshot_word(w, WORD_compile_context);
	snapshot_word(w, WORD_not_compiled);
	snapshot_word(w, WORD_user_metadata);
	snapshot_word(w, WORD_empty);
	snapshot_word(w, WORD_pool_id);
	snapshot_pool(w);
	snapshot_frames(w, r);
	pickle_set_items(p);
}

void snapshot_pool(struct snapshot_writer *w)
{
	if (w->pool != NOT_REMEMBERED) {
		pickle_again(&w->pickle, w->pool);
		return;
	}
	pickle_integer(&w->pickle, 0);
	pickle_integer(&w->pickle, 0);
	pickle_pair(&w->pickle);
	w->pool = pickle_remember(&w->pickle);
}

/* What was there before a history has no event, as in PyTorch's own file: it is in the segments, or
 * its free tells it. */
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
