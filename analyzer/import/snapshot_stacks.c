#define _GNU_SOURCE /* memmem */
#include "import/snapshot_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

/* A text, a frame or a stack that is in the image: objects of the file may be equal. */
struct kept_entry {
	char *key; /* enum mt_entry_kind, then its bytes */
	uint32_t id;
	UT_hash_handle hh;
};

/* Bytes that are read of a name: many frames of a file may share one. */
#define MOST_TEXT 4096u

struct str snapshot_text(struct pickled v)
{
	return v.type == VALUE_TEXT
		       ? (struct str){ v.text, v.length < MOST_TEXT ? v.length : MOST_TEXT }
		       : (struct str){ "", 0 };
}

/* The entry of these bytes; its `id` is 0 if it is new. */
static struct kept_entry *kept(struct snapshot_reading *s, enum mt_entry_kind kind,
			       const void *data, size_t length)
{
	struct kept_entry *found;

	s->key.length = 0;
	buf_add(&s->key, &kind, sizeof(kind));
	buf_add(&s->key, data, length);
	HASH_FIND(hh, s->kept, s->key.text, s->key.length, found);
	if (!found) {
		found = xcalloc(1, sizeof(*found));
		found->key = xcalloc(1, s->key.length);
		memcpy(found->key, s->key.text, s->key.length);
		HASH_ADD_KEYPTR(hh, s->kept, found->key, s->key.length, found);
	}
	return found;
}

static uint32_t text_id(struct snapshot_reading *s, struct pickled v)
{
	struct str text = snapshot_text(v);
	struct kept_entry *found = kept(s, MT_ENTRY_STRING, text.at, text.length);

	if (!found->id)
		found->id = image_string(&s->image, text);
	return found->id;
}

static uint32_t frame_id(struct snapshot_reading *s, struct pickled v)
{
	struct mt_frame frame = { 0 };
	struct kept_entry *found;

	if (v.type != VALUE_DICT)
		return 0;
	if (!v.items->number) {
		frame.function = text_id(s, dict_get(v, "name"));
		frame.file = text_id(s, dict_get(v, "filename"));
		frame.line = (uint32_t)value_size(dict_get(v, "line"), 0);
		found = kept(s, MT_ENTRY_FRAME, &frame, sizeof(frame));
		if (!found->id)
			found->id = image_frame(&s->image, &frame);
		v.items->number = found->id;
	}
	return v.items->number;
}

static int is_autograd(const struct items *frames)
{
	for (size_t i = 0; i < frames->count; i++) {
		struct str name = snapshot_text(dict_get(frames->at[i], "name"));

		if (memmem(name.at, name.length, "autograd::Engine", 16))
			return 1;
	}
	return !frames->count; /* a thread of autograd has no Python frames */
}

/* C++ frames are PyTorch's own; the rules and steps read Python's. */
static int is_python(struct pickled frame)
{
	struct pickled file = dict_get(frame, "filename");

	return file.type == VALUE_TEXT && file.length > 3 &&
	       !memcmp(file.text + file.length - 3, ".py", 3);
}

uint32_t snapshot_stack(struct snapshot_reading *s, struct pickled frames)
{
	const struct items *list = list_items(frames);
	struct kept_entry *found;
	size_t count = 1;

	if (frames.type != VALUE_LIST || list->number)
		return list->number ? list->number : 1; /* 1: the module alone */
	s->words = grow(s->words, 0, &s->room, sizeof(*s->words));
	for (size_t i = 0; i < list->count; i++) {
		if (!is_python(list->at[i]))
			continue;
		s->words = grow(s->words, count, &s->room, sizeof(*s->words));
		s->words[count++] = frame_id(s, list->at[i]);
	}
	s->words[0] = s->module;
	frames.items->mark = (uint8_t)is_autograd(list);
	found = kept(s, MT_ENTRY_STACK, s->words, count * sizeof(*s->words));
	if (!found->id)
		found->id = image_stack(&s->image, s->words, count);
	frames.items->number = found->id;
	return frames.items->number;
}

void snapshot_stacks_release(struct snapshot_reading *s)
{
	free(s->words);
	buf_release(&s->key);
	for (struct kept_entry *k = s->kept; k; k = k->hh.next)
		free(k->key);
	HASH_RELEASE(s->kept);
}
