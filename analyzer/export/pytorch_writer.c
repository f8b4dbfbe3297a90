/* The parts of a memory snapshot: words, frames, items of long lists, events. */
#include "export/pytorch_writer.h"

#include "attribution/attribution.h"
#include "attribution/stack_text.h"

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
