/* The blocks that were live at one moment, and what became of them. */
#ifndef MEMTRACE_LIVES_H
#define MEMTRACE_LIVES_H

#include <memtrace/trace.h>

#include "attribution/category.h"
#include "replay/live_set.h"
#include "util/util.h"

#define LIFE_OPEN UINT64_MAX /* not freed, as far as the trace goes */

struct life {
	struct mt_record born;
	uint64_t died_ns;
	uint32_t freed_stack;
	uint16_t died_thread;
	uint8_t category;
	uint8_t at_once; /* freed before anything else was made */
};

struct lives {
	struct life *list; /* by address */
	size_t count;
	uint64_t until_ns; /* the moment: the latest birth */
};

/* What holds of a record: is it one of the blocks that are wanted? */
typedef int lives_filter(const void *context, const struct mt_record *r, int device);

void lives_collect(struct lives *l, const struct live *from, int device, lives_filter *is_wanted,
		   const void *context);
void lives_release(struct lives *l);

/* `was` is freed by `by`; `at_once`: before anything else was made. */
void lives_end(struct lives *l, const struct mt_record *was, const struct mt_record *by,
	       int at_once);

#endif
