#include "trace/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Ids count up from 1. Any other id is damage. Unknown entries fill a hole, as long as all holes
 * together are not larger than this.
 */
#define MAX_HOLES 4096

/* Longer texts and deeper stacks are cut, so that a small hostile file makes no huge report. */
#define LONGEST_STRING 4096
#define DEEPEST_STACK 4096

#define MAKE_ROOM(t, what, id)                                                                  \
	do {                                                                                    \
		while ((t)->what##_count <= (id)) {                                             \
			(t)->what##s = grow((t)->what##s, (t)->what##_count, &(t)->what##_room, \
					    sizeof(*(t)->what##s));                             \
			memset(&(t)->what##s[(t)->what##_count++], 0, sizeof(*(t)->what##s));   \
		}                                                                               \
	} while (0)

static void add_unknown(struct tables *t)
{
	MAKE_ROOM(t, string, 0);
	MAKE_ROOM(t, frame, 0);
	MAKE_ROOM(t, stack, 0);
	MAKE_ROOM(t, module, 0);
	MAKE_ROOM(t, thread, 0);
}

/* The holes of a damaged table cost memory, so their total is limited. */
static int id_is_wrong(struct tables *t, size_t count, uint32_t id)
{
	if (!id || id < count || id - count > MAX_HOLES - t->holes)
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
	/* Entries refer to earlier entries only. */
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
	if (stack.frame_count > DEEPEST_STACK) {
		stack.left_out = stack.frame_count - DEEPEST_STACK;
		stack.frame_count = DEEPEST_STACK;
	}
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

	add_unknown(t);
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

void tables_finish(struct tables *t)
{
	add_unknown(t);
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
	free(t->frame_kinds);
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

/* An entry that a damaged trace lacks is an empty text, which may be copied and compared. */
static struct str text_of(struct str entry)
{
	return entry.at ? entry : (struct str){ "", 0 };
}

struct str tables_string(const struct tables *t, uint32_t string)
{
	return text_of(t->strings[string < t->string_count ? string : 0]);
}

struct str tables_module(const struct tables *t, uint32_t module)
{
	return text_of(t->modules[module < t->module_count ? module : 0]);
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

/* A program that writes a title over its arguments (setproctitle) leaves zeros behind it. */
struct str tables_argv(const struct tables *t)
{
	const struct meta *m = tables_meta(t, MT_META_ARGV);
	struct str words = m ? m->value : (struct str){ "", 0 };
	size_t end = words.length;

	while (end && !words.at[end - 1])
		end--;
	/* One zero ends the last word, and a second one an empty word. */
	if (words.length - end > 2)
		words.length = end + 1;
	return words;
}

/* c10/cuda/CUDAAllocatorConfig.h, instance(): the first variable that is set. */
struct str tables_allocator_conf(const struct tables *t)
{
	static const char *const variables[] = { MT_META_ENV "PYTORCH_CUDA_ALLOC_CONF",
						 MT_META_ENV "PYTORCH_ALLOC_CONF" };

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const struct meta *m = tables_meta(t, variables[i]);

		if (m)
			return m->value;
	}
	return (struct str){ "", 0 };
}

int tables_torch_version(const struct tables *t)
{
	const struct meta *m = tables_meta(t, MT_META_VERSION "torch");
	char text[16] = "";
	int major, minor;

	if (!m)
		return 0;
	memcpy(text, m->value.at,
	       m->value.length < sizeof(text) ? m->value.length : sizeof(text) - 1);
	return sscanf(text, "%2d.%2d", &major, &minor) == 2 && major > 0 && minor >= 0
		       ? 100 * major + minor
		       : 0;
}
