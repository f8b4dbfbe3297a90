/* Lifetimes: the blocks that are live at one moment of a trace, and when each is freed. */
#ifndef MEMTRACE_LIFETIME_H
#define MEMTRACE_LIFETIME_H

#include <memtrace/trace.h>

#include "attribution/category.h"
#include "util/util.h"

#define LIFETIME_OPEN UINT64_MAX /* the trace does not show the block freed */

struct lifetime {
	struct mt_record alloc;
	uint64_t freed_ns;    /* LIFETIME_OPEN: never */
	uint32_t freed_stack; /* these two are of the FREE event, 0 without one */
	uint16_t freed_thread;
	uint8_t category;
	uint8_t is_transient; /* the last allocation before the moment, freed before the next one */
	uint32_t origin;      /* of a block of a backward pass: backward_origin() */
};

struct lifetimes {
	struct lifetime *list; /* by address, after lifetimes_sort() */
	size_t count, room;
	uint64_t until_ns; /* the time of the latest allocation among them */
};

/* Adds a live block by the record that allocated it. */
void lifetimes_add(struct lifetimes *l, const struct mt_record *alloc);
/* To be called after the last lifetimes_add(). */
void lifetimes_sort(struct lifetimes *l);
void lifetimes_release(struct lifetimes *l);
/* A comparator of pointers to lifetimes: by stack, the first allocated first. */
int lifetime_by_stack(const void *a, const void *b);
/* The same, all in the order of time. */
int lifetime_by_time(const void *a, const void *b);

/* Notes that `freed` frees what `alloc` allocated, if that is one of the blocks. `is_transient`: no
 * block was allocated since the moment. */
void lifetimes_end(struct lifetimes *l, const struct mt_record *alloc,
		   const struct mt_record *freed, int is_transient);

#endif
