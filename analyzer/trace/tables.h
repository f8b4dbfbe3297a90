/*
 * The tables of a trace: strings, frames, stacks, modules, threads and meta entries. An id that the
 * trace does not define gives the unknown entry, number 0, which is empty. Texts point into the
 * tables and are valid until tables_release(); they are not terminated by a zero.
 */
#ifndef MEMTRACE_TABLES_H
#define MEMTRACE_TABLES_H

#include <memtrace/trace.h>

#include "util/util.h"

struct stack_info;

/* The module that called, and the Python stack of the call. */
struct stack {
	uint32_t module;
	uint32_t frame_count;   /* 0: no Python stack was recorded */
	const uint32_t *frames; /* ids of the frames, innermost first; all of them exist */
	uint32_t left_out;      /* outermost frames that the trace has and that are not read */
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
	/* The counts include the unknown entry. */
	size_t string_count, frame_count, stack_count, module_count, thread_count;
	size_t string_room, frame_room, stack_room, module_room, thread_room;
	uint64_t holes; /* ids that a damaged table skipped */
	struct meta *meta;
	size_t meta_count, meta_room;

	/* Written by attribute_trace() (attribution/attribution.h) and NULL or 0 before. */
	struct stack_info *stack_info;     /* of each stack */
	unsigned char *frame_kinds;        /* of each frame: bits of enum frame_kind */
	uint64_t signatures;               /* bits of signatures[] that some frame matches */
	unsigned char *stack_owners;       /* of each stack: enum owner */
	unsigned char thread_flags[65536]; /* of each thread id: enum thread_flag */

	unsigned damaged; /* entries that break the format */
	unsigned unknown; /* entries of kinds that this program does not know */

	void **regions;
	size_t region_count, region_room;
};

/* Reads the entries of a region. The region belongs to the tables from now on; the first entry
 * begins at its first byte. */
void tables_add_region(struct tables *t, void *region, size_t length);
/* To be called after the last region, also if there was none. */
void tables_finish(struct tables *t);
void tables_release(struct tables *t);

const struct stack *tables_stack(const struct tables *t, uint32_t stack);
const struct mt_frame *tables_frame(const struct tables *t, uint32_t frame);
struct str tables_string(const struct tables *t, uint32_t string);
struct str tables_module(const struct tables *t, uint32_t module);
struct thread tables_thread(const struct tables *t, uint32_t thread);
/* The last entry with this key, or NULL. */
const struct meta *tables_meta(const struct tables *t, const char *key);
/* The words of the command line, with a zero behind each; empty: it is not known. */
struct str tables_argv(const struct tables *t);
/* The caching allocator's settings in the environment; empty: none. */
struct str tables_allocator_conf(const struct tables *t);
/* The version of PyTorch: 215 is 2.15; 0: unknown. */
int tables_torch_version(const struct tables *t);

#endif
