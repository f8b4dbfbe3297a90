#include "trace/tables.h"

#include <stdlib.h>
#include <string.h>

/*
 * Ids count up from 1. One that does not is damage; a hole is filled with unknown entries, as long
 * as it is not larger than the tables themselves could have described.
 */
#define MOST_HOLES 4096

/* Longer texts and deeper stacks are cut: a small hostile file must not make a huge report. */
#define LONGEST_STRING 4096
#define DEEPEST_STACK 512

#define MAKE_ROOM(t, what, id)                                                                  \
	do {                                                                                    \
		while ((t)->what##_count <= (id)) {                                             \
			(t)->what##s = grow((t)->what##s, (t)->what##_count, &(t)->what##_room, \
					    sizeof(*(t)->what##s));                             \
			memset(&(t)->what##s[(t)->what##_count++], 0, sizeof(*(t)->what##s));   \
		}                                                                               \
	} while (0)

static void start(struct tables *t)
{
	MAKE_ROOM(t, string, 0);
	MAKE_ROOM(t, frame, 0);
	MAKE_ROOM(t, stack, 0);
	MAKE_ROOM(t, module, 0);
	MAKE_ROOM(t, thread, 0);
}

/* Ids count up; those that a damaged table skips cost memory, so few are let through in all. */
static int id_is_wrong(struct tables *t, size_t count, uint32_t id)
{
	if (!id || id < count || id - count > MOST_HOLES - t->holes)
		return 1;
	t->holes += id - count;
	return 0;
}

static int add_frame(struct tables *t, uint32_t id, struct str p)
{
	struct mt_frame frame;

	if (id_is_wrong(t, t->frame_count, id) || p.length < sizeof(frame))
		return -1;
	memcpy(&frame, p.at, sizeof(frame));
	MAKE_ROOM(t, frame, id);
	/* Only earlier entries are referred to, so what is not there yet never comes. */
	if (frame.function >= t->string_count || frame.file >= t->string_count)
		return -1;
	t->frames[id] = frame;
	return 0;
}

static int add_stack(struct tables *t, uint32_t id, struct str p)
{
	const uint32_t *words = (const void *)p.at;
	struct stack stack = { 0 };

	if (id_is_wrong(t, t->stack_count, id) || p.length < 4 || p.length % 4)
		return -1;
	MAKE_ROOM(t, stack, id);
	if (words[0] >= t->module_count)
		return -1;
	stack = (struct stack){ .module = words[0],
				.frame_count = (uint32_t)(p.length / 4 - 1),
				.frames = words + 1 };
	t->stacks[id].module = stack.module;
	if (stack.frame_count > DEEPEST_STACK)
		stack.frame_count = DEEPEST_STACK;
	for (uint32_t i = 0; i < stack.frame_count; i++)
		if (!stack.frames[i] || stack.frames[i] >= t->frame_count)
			return -1;
	t->stacks[id] = stack;
	return 0;
}

static int add_thread(struct tables *t, uint32_t id, struct str p)
{
	struct thread thread;

	if (id_is_wrong(t, t->thread_count, id) || id >= MT_NO_THREAD || p.length < 4)
		return -1;
	memcpy(&thread.tid, p.at, 4);
	thread.name = (struct str){ p.at + 4, p.length - 4 };
	MAKE_ROOM(t, thread, id);
	t->threads[id] = thread;
	return 0;
}

static int add_meta(struct tables *t, struct str p)
{
	const char *end = p.length ? memchr(p.at, '\0', p.length) : NULL;

	if (!end)
		return -1;
	t->meta = grow(t->meta, t->meta_count, &t->meta_room, sizeof(*t->meta));
	t->meta[t->meta_count++] = (struct meta){
		.key = { p.at, (size_t)(end - p.at) },
		.value = { end + 1, p.length - (size_t)(end - p.at) - 1 },
	};
	return 0;
}

static int add_entry(struct tables *t, const struct mt_entry *entry, struct str p)
{
	if (entry->kind != MT_ENTRY_META && entry->kind != MT_ENTRY_STACK &&
	    p.length > LONGEST_STRING)
		p.length = LONGEST_STRING;
	switch (entry->kind) {
	case MT_ENTRY_STRING:
		if (id_is_wrong(t, t->string_count, entry->id))
			return -1;
		MAKE_ROOM(t, string, entry->id);
		t->strings[entry->id] = p;
		return 0;
	case MT_ENTRY_MODULE:
		if (id_is_wrong(t, t->module_count, entry->id))
			return -1;
		MAKE_ROOM(t, module, entry->id);
		t->modules[entry->id] = p;
		return 0;
	case MT_ENTRY_FRAME:
		return add_frame(t, entry->id, p);
	case MT_ENTRY_STACK:
		return add_stack(t, entry->id, p);
	case MT_ENTRY_THREAD:
		return add_thread(t, entry->id, p);
	case MT_ENTRY_META:
		return add_meta(t, p);
	}
	t->unknown++;
	return 0;
}

void tables_add_region(struct tables *t, void *region, size_t length)
{
	size_t at = 0;

	start(t);
	t->regions = grow(t->regions, t->region_count, &t->region_room, sizeof(*t->regions));
	t->regions[t->region_count++] = region;
	while (length - at >= sizeof(struct mt_entry)) {
		const char *here = (const char *)region + at;
		struct mt_entry entry;

		memcpy(&entry, here, sizeof(entry));
		at += sizeof(entry);
		if (!entry.kind || entry.bytes > length - at) {
			t->damaged++;
			return;
		}
		if (add_entry(t, &entry, (struct str){ here + sizeof(entry), entry.bytes }) < 0)
			t->damaged++;
		at += (entry.bytes + 7ul) & ~7ul;
		if (at > length)
			return;
	}
}

static void flag_threads(struct tables *t, uint32_t pid)
{
	int have_main = 0;

	for (size_t i = 1; i < t->thread_count; i++)
		if (str_matches(t->threads[i].name, "pt_autograd*"))
			t->thread_flags[i] = THREAD_AUTOGRAD;
	for (size_t i = 1; i < t->thread_count; i++)
		if (!t->thread_flags[i] && t->threads[i].tid == pid) {
			t->thread_flags[i] = THREAD_MAIN;
			have_main = 1;
		}
	/* The loop may run in another thread (a Ray actor's, say): then all but the autograd
	 * threads count as it. */
	for (size_t i = 0; !have_main && i < ARRAY_SIZE(t->thread_flags); i++)
		if (!t->thread_flags[i])
			t->thread_flags[i] = THREAD_MAIN;
}

static void read_stacks(struct tables *t)
{
	unsigned char *owners = xcalloc(t->module_count, 1);

	for (size_t i = 0; i < t->module_count; i++)
		owners[i] = (unsigned char)owner_of_module(t->modules[i]);
	t->stack_owners = xcalloc(t->stack_count, 1);
	t->stack_owners[MT_NO_STACK] = OWNER_APPLICATION;
	for (size_t i = 1; i < t->stack_count; i++)
		t->stack_owners[i] = owners[t->stacks[i].module];
	t->stack_info = stacks_read(t);
	free(owners);
}

void tables_finish(struct tables *t, uint32_t pid)
{
	start(t);
	read_stacks(t);
	flag_threads(t, pid);
}

void tables_release(struct tables *t)
{
	for (size_t i = 0; i < t->region_count; i++)
		free(t->regions[i]);
	free(t->regions);
	free(t->strings);
	free(t->frames);
	free(t->stacks);
	free(t->modules);
	free(t->threads);
	free(t->meta);
	free(t->stack_info);
	free(t->stack_owners);
	*t = (struct tables){ 0 };
}

const struct stack *tables_stack(const struct tables *t, uint32_t stack)
{
	return &t->stacks[stack < t->stack_count ? stack : 0];
}

const struct mt_frame *tables_frame(const struct tables *t, uint32_t frame)
{
	return &t->frames[frame < t->frame_count ? frame : 0];
}

struct str tables_string(const struct tables *t, uint32_t string)
{
	return t->strings[string < t->string_count ? string : 0];
}

struct str tables_module(const struct tables *t, uint32_t module)
{
	return t->modules[module < t->module_count ? module : 0];
}

struct thread tables_thread(const struct tables *t, uint32_t thread)
{
	return t->threads[thread < t->thread_count ? thread : 0];
}

const struct meta *tables_meta(const struct tables *t, const char *key)
{
	for (size_t i = t->meta_count; i-- > 0;)
		if (t->meta[i].key.length == strlen(key) &&
		    !memcmp(t->meta[i].key.at, key, strlen(key)))
			return &t->meta[i];
	return NULL;
}

static void add_name(struct buf *b, struct str name)
{
	if (name.length)
		buf_add_utf8(b, name);
	else
		buf_puts(b, "?");
}

/* Says that deeper frames are not kept. */
static int is_no_frame(const struct tables *t, const struct mt_frame *f)
{
	return !f->line && !tables_string(t, f->file).length;
}

void tables_add_stack(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	for (uint32_t i = p->frame_count; i-- > 0;) {
		const struct mt_frame *f = tables_frame(t, p->frames[i]);

		add_name(b, tables_string(t, f->function));
		if (is_no_frame(t, f)) {
			buf_puts(b, i ? ";" : "");
			continue;
		}
		buf_puts(b, " ");
		add_name(b, tables_string(t, f->file));
		buf_addf(b, ":%u%s", f->line, i ? ";" : "");
	}
}

static int is_pytorch_file(struct str file)
{
	return str_matches(file, "*/site-packages/torch/*") ||
	       str_matches(file, "*/dist-packages/torch/*") || str_matches(file, "<frozen *");
}

/* The innermost frame that is not PyTorch's own, else the innermost. */
static uint32_t shown_frame(const struct tables *t, const struct stack *p)
{
	for (uint32_t i = 0; i < p->frame_count; i++) {
		const struct mt_frame *f = tables_frame(t, p->frames[i]);
		if (!is_pytorch_file(tables_string(t, f->file)) && !is_no_frame(t, f))
			return i;
	}
	return 0;
}

static void add_short_frame(const struct tables *t, const struct mt_frame *f, const char *between,
			    struct buf *b)
{
	struct str function = tables_string(t, f->function), file = tables_string(t, f->file);
	const struct str unknown = { "?", 1 };
	size_t slash = file.length;

	while (slash && file.at[slash - 1] != '/')
		slash--;
	if (file.length)
		file = (struct str){ file.at + slash, file.length - slash };
	buf_add_clean(b, function.length ? function : unknown);
	buf_puts(b, between);
	buf_add_clean(b, file.length ? file : unknown);
	buf_addf(b, ":%u", f->line);
}

void tables_add_label(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (p->frame_count)
		add_short_frame(t, tables_frame(t, p->frames[shown_frame(t, p)]), "  ", b);
}

void tables_add_inner(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);

	if (p->frame_count && shown_frame(t, p))
		add_short_frame(t, tables_frame(t, p->frames[0]), " ", b);
}

static int is_module_call(const struct tables *t, uint32_t frame)
{
	const struct mt_frame *f = tables_frame(t, frame);

	return str_matches(tables_string(t, f->function), "*_call_impl*") &&
	       str_matches(tables_string(t, f->file), "*/torch/nn/modules/module.py");
}

void tables_add_module(const struct tables *t, uint32_t stack, struct buf *b)
{
	const struct stack *p = tables_stack(t, stack);
	const size_t suffix = strlen(".forward");
	int called = 0;

	if (!(tables_stack_flags(t, stack) & STACK_MODULE))
		return;
	for (uint32_t i = p->frame_count; i-- > 0;) {
		struct str name = tables_string(t, tables_frame(t, p->frames[i])->function);

		if (is_module_call(t, p->frames[i])) {
			called = 1;
			continue;
		}
		/* Decorators may lie between the call and the module's own function. */
		if (!called || !str_matches(name, "*.forward"))
			continue;
		called = 0;
		if (b->length)
			buf_puts(b, ".");
		buf_add_clean(b, (struct str){ name.at, name.length - suffix });
	}
}

int str_matches_part(struct str text, const char *pattern, size_t length)
{
	size_t i = 0, k = 0, retry = 0, star = SIZE_MAX;

	while (i < text.length) {
		if (k < length && pattern[k] == '*') {
			star = ++k;
			retry = i;
		} else if (k < length && pattern[k] == text.at[i]) {
			k++;
			i++;
		} else if (star != SIZE_MAX) {
			k = star;
			i = ++retry;
		} else {
			return 0;
		}
	}
	while (k < length && pattern[k] == '*')
		k++;
	return k == length;
}

int str_matches(struct str text, const char *pattern)
{
	return str_matches_part(text, pattern, strlen(pattern));
}
