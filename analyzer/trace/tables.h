/* The tables of a trace: strings, frames, stacks, modules, threads, meta. Unknown ids give the
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

struct stack {
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
	struct stack *stacks;
	struct str *modules;
	struct thread *threads;
	size_t string_count, frame_count, stack_count, module_count,
		thread_count; /* with the unknown one */
	size_t string_room, frame_room, stack_room, module_room, thread_room;
	uint64_t holes; /* ids that a damaged table skipped */
	struct meta *meta;
	size_t meta_count, meta_room;
	struct stack_info *stack_info;
	unsigned char *stack_owners; /* enum owner */
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

static inline const struct stack_info *tables_stack_info(const struct tables *t, uint32_t stack)
{
	return &t->stack_info[stack < t->stack_count ? stack : MT_NO_STACK];
}

static inline uint32_t tables_stack_flags(const struct tables *t, uint32_t stack)
{
	return tables_stack_info(t, stack)->flags;
}

static inline enum owner tables_stack_owner(const struct tables *t, uint32_t stack)
{
	return (enum owner)t->stack_owners[stack < t->stack_count ? stack : MT_NO_STACK];
}

const struct stack *tables_stack(const struct tables *t, uint32_t stack);
const struct mt_frame *tables_frame(const struct tables *t, uint32_t frame);
struct str tables_string(const struct tables *t, uint32_t string);
struct str tables_module(const struct tables *t, uint32_t module);
/* Its name is empty if nothing is known. */
struct thread tables_thread(const struct tables *t, uint32_t thread);
/* The last value of a key, or NULL. */
const struct meta *tables_meta(const struct tables *t, const char *key);

/* "function file:line;function file:line", outermost first; empty if there are no frames. Valid
 * UTF-8. */
void tables_add_stack(const struct tables *t, uint32_t stack, struct buf *b);
/* "function  file:line" of the innermost frame that is not PyTorch's own, else of the innermost.
 * Safe on a terminal. */
void tables_add_label(const struct tables *t, uint32_t stack, struct buf *b);
/* "function file:line" of the innermost frame, if the label shows another one; else nothing. Safe
 * on a terminal. */
void tables_add_inner(const struct tables *t, uint32_t stack, struct buf *b);

/* The classes of the modules that were called, outermost first: "LlamaModel.LlamaDecoderLayer.LlamaMLP"; empty if there are none. Safe on a
 * terminal. */
void tables_add_module(const struct tables *t, uint32_t stack, struct buf *b);

/* Does `text` match `pattern`, in which * stands for anything? */
int str_matches(struct str text, const char *pattern);
/* The same for the first `length` bytes of a pattern. */
int str_matches_part(struct str text, const char *pattern, size_t length);

#endif
