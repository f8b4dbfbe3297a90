#include "import/profile_stacks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

/* Frames of a stack that are kept, the innermost; and open ranges that are looked at for them. */
#define MOST_FRAMES 128
#define MOST_LOOKED_AT 1024

/* Words of all different stacks. Profiles have some ten thousand stacks. */
#define MOST_WORDS (UINT64_C(32) << 20)

/* The ranges of a thread, and which of them are open. */
struct profile_thread {
	size_t next, end;
	size_t *open;
	size_t count, room;
};

/* The name of a range as a frame. */
struct profile_name {
	uint32_t function, file; /* strings of the image */
	uint32_t line;           /* in which the function begins */
	uint8_t is_read, is_frame;
};

/* A frame or a stack that is in the image. */
struct interned {
	uint32_t *words;
	uint32_t id;
	UT_hash_handle hh;
};

static int by_thread(const void *a, const void *b)
{
	const struct profile_range *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns); /* the outer one first */
}

void stacks_begin(struct profile_stacks *s, struct profile *p, struct image *i, uint32_t module)
{
	*s = (struct profile_stacks){ .profile = p, .image = i, .module = module };
	s->threads = xcalloc(p->thread_count + 1, sizeof(*s->threads));
	s->names = xcalloc(p->name_count + 1, sizeof(*s->names));
	if (p->range_count)
		qsort(p->ranges, p->range_count, sizeof(*p->ranges), by_thread);
	for (size_t k = 0; k < p->range_count; k++) {
		struct profile_thread *t = &s->threads[p->ranges[k].thread];

		if (!t->end)
			t->next = k;
		t->end = k + 1;
	}
}

static struct interned *intern(struct interned **all, const uint32_t *words, size_t count,
			       int *is_new)
{
	size_t length = count * sizeof(*words);
	struct interned *found;

	HASH_FIND(hh, *all, words, length, found);
	*is_new = !found;
	if (!found) {
		found = xcalloc(1, sizeof(*found));
		found->words = xcalloc(count, sizeof(*words));
		memcpy(found->words, words, length);
		HASH_ADD_KEYPTR(hh, *all, found->words, length, found);
	}
	return found;
}

/* The path of a Python file is relative to an entry of sys.path: patterns of frames (frames.def)
 * want a folder before "torch/", and know that PyTorch's own code is a package. */
static uint32_t file_id(struct image *i, struct str file)
{
	const char *before = file.length && (*file.at == '/' || *file.at == '<') ? ""
			     : file.length > 6 && !memcmp(file.at, "torch/", 6) ? "./site-packages/"
										: "./";
	struct buf path = { 0 };
	uint32_t id;

	buf_puts(&path, before);
	buf_add(&path, file.at, file.length);
	id = image_string(i, (struct str){ path.text, path.length });
	buf_release(&path);
	return id;
}

/* "torch/nn/modules/linear.py(130): forward". A name without a line is a function of C. */
static void read_python(struct image *i, const char *text, struct profile_name *n)
{
	const char *end = strstr(text, "): "), *open = end;

	while (open && open > text && isdigit((unsigned char)open[-1]))
		open--;
	if (!open || open == end || open == text || open[-1] != '(')
		return;
	n->line = (uint32_t)strtoul(open, NULL, 10);
	n->file = file_id(i, (struct str){ text, (size_t)(open - 1 - text) });
	n->function = image_string(i, (struct str){ end + 3, strlen(end + 3) });
	n->is_frame = 1;
}

/* PyTorch's optimizers open a range "Optimizer.step#AdamW.step". */
static void read_named(struct image *i, const char *text, struct profile_name *n)
{
	static const char optimizer[] = "Optimizer.step#", file[] = "torch/optim/optimizer.py";

	if (strncmp(text, optimizer, sizeof(optimizer) - 1))
		return;
	n->function = image_string(i, (struct str){ optimizer, sizeof(optimizer) - 2 });
	n->file = file_id(i, (struct str){ file, sizeof(file) - 1 });
	n->is_frame = 1;
}

static void read_operator(struct image *i, const char *text, struct profile_name *n)
{
	static const struct str file = { MT_OPERATORS, sizeof(MT_OPERATORS) - 1 };

	n->function = image_string(i, (struct str){ text, strlen(text) });
	n->file = image_string(i, file);
	n->is_frame = 1;
}

static const struct profile_name *name_of(struct profile_stacks *s, const struct profile_range *r)
{
	struct profile_name *n = &s->names[r->name];
	const char *text = s->profile->name_texts[r->name];

	if (n->is_read)
		return n;
	n->is_read = 1;
	if (r->kind == RANGE_PYTHON)
		read_python(s->image, text, n);
	else if (!s->profile->has_python && r->kind == RANGE_NAMED)
		read_named(s->image, text, n);
	else if (!s->profile->has_python)
		read_operator(s->image, text, n);
	return n;
}

static uint32_t frame_of(struct profile_stacks *s, uint32_t name, uint32_t line)
{
	const uint32_t key[] = { name, line };
	int is_new;
	struct interned *found = intern(&s->frames, key, ARRAY_SIZE(key), &is_new);

	if (is_new)
		found->id = image_frame(s->image,
					&(struct mt_frame){ .function = s->names[name].function,
							    .file = s->names[name].file,
							    .line = line });
	return found->id;
}

/* Opens the ranges that have begun at a time, and closes those that have ended. */
static void advance(struct profile_stacks *s, struct profile_thread *t, int64_t at_ns)
{
	const struct profile_range *ranges = s->profile->ranges;

	for (; t->next < t->end && ranges[t->next].begin_ns <= at_ns; t->next++) {
		while (t->count && ranges[t->open[t->count - 1]].end_ns <= ranges[t->next].begin_ns)
			t->count--;
		t->open = grow(t->open, t->count, &t->room, sizeof(*t->open));
		t->open[t->count++] = t->next;
	}
	while (t->count && ranges[t->open[t->count - 1]].end_ns <= at_ns)
		t->count--;
}

uint32_t stacks_at(struct profile_stacks *s, uint32_t thread, int64_t at_ns, int *in_backward)
{
	struct profile_thread *t = &s->threads[thread];
	uint32_t words[1 + MOST_FRAMES] = { s->module }, line = 0;
	size_t count = 1, looked_at = 0;
	struct interned *found;
	int is_new;

	*in_backward = 0;
	advance(s, t, at_ns);
	for (size_t i = t->count; i-- > 0 && looked_at < MOST_LOOKED_AT; looked_at++) {
		const struct profile_range *r = &s->profile->ranges[t->open[i]];
		const struct profile_name *name = name_of(s, r);

		if (r->end_ns <= at_ns)
			continue; /* not nested: of a damaged file */
		*in_backward |= r->kind == RANGE_BACKWARD;
		if (name->is_frame && count <= MOST_FRAMES)
			words[count++] = frame_of(s, r->name, line ? line : name->line);
		if (r->kind == RANGE_PYTHON)
			line = r->line; /* in which the function around it is then */
	}
	if (stacks_are_too_many(s))
		count = 1;
	found = intern(&s->stacks, words, count, &is_new);
	s->words += is_new ? count : 0;
	if (is_new)
		found->id = image_stack(s->image, words, count);
	return found->id;
}

int stacks_are_too_many(const struct profile_stacks *s)
{
	return s->words > MOST_WORDS;
}

static void release(struct interned **all)
{
	for (struct interned *i = *all; i; i = i->hh.next)
		free(i->words);
	HASH_RELEASE(*all);
}

void stacks_end(struct profile_stacks *s)
{
	for (size_t i = 0; i <= s->profile->thread_count; i++)
		free(s->threads[i].open);
	free(s->threads);
	free(s->names);
	release(&s->frames);
	release(&s->stacks);
}
