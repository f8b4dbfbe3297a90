/*
 * The ranges of time that a job named (record_function()) as marks of a trace: "ProfilerStep#3",
 * which torch.profiler's step() writes, and names that count steps ("step 3", "## iteration 3 ##")
 * begin a step, others are phases.
 */
#ifndef MEMTRACE_IMPORT_ANNOTATIONS_H
#define MEMTRACE_IMPORT_ANNOTATIONS_H

#include "import/image.h"

struct annotation {
	uint64_t at_ns;
	struct str name;
	uint32_t order;
	uint32_t pair;  /* 1 + the index of the beginning of this end, of the end of this beginning;
			   0: there is none */
	uint32_t outer; /* of a beginning: 1 + the index of that of the same name around it */
	uint32_t phase; /* of a phase's beginning and end; 0: neither */
	int is_end, is_step;
};

struct annotated_name; /* of a hash table */

struct annotations {
	struct annotation *list;
	size_t count, room;
	struct annotated_name *names;
	int64_t steps;
};

/* `name` must stay. */
void annotations_add(struct annotations *a, uint64_t at_ns, int is_end, struct str name);
/* After the last one: writes all, with stacks of `module`, and releases. */
void annotations_finish(struct annotations *a, struct image *i, uint32_t module);

#endif
