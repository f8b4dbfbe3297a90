/* The tables of a trace: strings, frames, places, modules, threads, meta. Unknown ids give the
 * unknown entry, number 0. */
#ifndef MEMTRACE_TABLES_H
#define MEMTRACE_TABLES_H

#include <memtrace/trace.h>

#include "util/buf.h"
#include "attribution/owner.h"
#include "attribution/frames.h"
#include "util/util.h"

enum thread_flag {
	THREAD_AUTOGRAD = 1, /* does the backward pass */
	THREAD_MAIN = 2,     /* the one that runs the training loop, as far as can be told */
};

struct place {
	uint32_t module;
	uint32_t frame_count;
	const uint32_t *frames; /* innermost first; all known */
};

struct thread {
	uint32_t tid;
	struct str name;
};

struct meta {
	struct str key, value;
};

struct tables {
	struct str *strings;
	struct mt_frame *frames;
	struct place *places;
	struct str *modules;
	struct thread *threads;
	size_t string_count, frame_count, place_count, module_count,
		thread_count; /* with the unknown one */
	size_t string_room, frame_room, place_room, module_room, thread_room;
	uint64_t holes; /* ids that a damaged table skipped */
	struct meta *meta;
	size_t meta_count, meta_room;
	struct place_info *place_info;
	unsigned char *place_owners; /* enum owner */
	unsigned char thread_flags[65536];

	unsigned damaged; /* entries that make no sense */
	unsigned unknown; /* entries of kinds that this program does not know */

	void **regions;
	size_t region_count, region_room;
};

/* Takes `region`, which tables_release() frees; it starts with a whole entry. */
void tables_add_region(struct tables *t, void *region, size_t length);
/* After the last region. */
void tables_finish(struct tables *t, uint32_t pid);
void tables_release(struct tables *t);

static inline const struct place_info *tables_place_info(const struct tables *t, uint32_t place)
{
	return &t->place_info[place < t->place_count ? place : MT_NO_PLACE];
}

static inline uint32_t tables_place_flags(const struct tables *t, uint32_t place)
{
	return tables_place_info(t, place)->flags;
}

static inline enum owner tables_place_owner(const struct tables *t, uint32_t place)
{
	return (enum owner)t->place_owners[place < t->place_count ? place : MT_NO_PLACE];
}

const struct place *tables_place(const struct tables *t, uint32_t place);
const struct mt_frame *tables_frame(const struct tables *t, uint32_t frame);
struct str tables_string(const struct tables *t, uint32_t string);
struct str tables_module(const struct tables *t, uint32_t module);
/* Its name is empty if nothing is known. */
struct thread tables_thread(const struct tables *t, uint32_t thread);
/* The last value of a key, or NULL. */
const struct meta *tables_meta(const struct tables *t, const char *key);

/* "function file:line;function file:line", outermost first; empty if there are no frames. Valid
 * UTF-8. */
void tables_add_stack(const struct tables *t, uint32_t place, struct buf *b);
/* "function  file:line" of the innermost frame that is not PyTorch's own, else of the innermost.
 * Safe on a terminal. */
void tables_add_label(const struct tables *t, uint32_t place, struct buf *b);
/* "function file:line" of the innermost frame, if the label shows another one; else nothing. Safe
 * on a terminal. */
void tables_add_inner(const struct tables *t, uint32_t place, struct buf *b);

/* The classes of the modules that were called, outermost first: "LlamaModel.LlamaDecoderLayer.LlamaMLP"; empty if there are none. Safe on a
 * terminal. */
void tables_add_module(const struct tables *t, uint32_t place, struct buf *b);

/* Does `text` match `pattern`, in which * stands for anything? */
int str_matches(struct str text, const char *pattern);
/* The same for the first `length` bytes of a pattern. */
int str_matches_part(struct str text, const char *pattern, size_t length);

#endif
