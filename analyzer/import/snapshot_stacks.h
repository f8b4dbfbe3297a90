/* Shared by the parts of the reader of memory snapshots: the state, and stacks. */
#ifndef MEMTRACE_IMPORT_SNAPSHOT_STACKS_H
#define MEMTRACE_IMPORT_SNAPSHOT_STACKS_H

#include "import/image.h"
#include "import/unpickle.h"

struct placed;     /* blocks and segments by their address */
struct kept_entry; /* of a hash table */

struct snapshot_reading {
	struct image image;
	struct kept_entry *kept; /* texts, frames and stacks that are in the image */
	struct buf key;
	struct placed *live;     /* what is allocated */
	void *maps;              /* of expandable segments (mapped.h) */
	struct pickled segments; /* of the snapshot */
	uint32_t module;
	uint16_t python, autograd; /* threads */
	int has_stacks;            /* the history was recorded with stacks */
	int begins_late;           /* that of a device lacks what was allocated before */
	unsigned device;
	int64_t reserved, allocated;
	uint64_t start_us, now_ns;
	uint32_t *words; /* of the stack that is written */
	size_t room;
};

/* "" if the value is no text. */
struct str snapshot_text(struct pickled v);
/* The stack of a list of frames; of anything else, that of the module alone. Of a list, its `mark`
 * says then whether a thread of autograd ran. */
uint32_t snapshot_stack(struct snapshot_reading *s, struct pickled frames);
/* The end of the stacks. */
void snapshot_stacks_release(struct snapshot_reading *s);

#endif
