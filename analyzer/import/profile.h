/* The memory events of a Chrome trace of PyTorch's profiler (export_chrome_trace(),
 * profile_memory=True): those of the GPU's allocator, and the ranges of time in which they
 * happened. */
#ifndef MEMTRACE_IMPORT_PROFILE_H
#define MEMTRACE_IMPORT_PROFILE_H

#include <memtrace/trace.h>

#include "util/err.h"
#include "util/util.h"

enum range_kind {
	RANGE_PYTHON, /* a call of a Python function */
	RANGE_OPERATOR,
	RANGE_BACKWARD, /* an operator that autograd runs */
	RANGE_NAMED     /* record_function() */
};

struct profile_range {
	int64_t begin_ns, end_ns;
	uint32_t thread; /* an index of `threads` */
	uint32_t name;   /* an index of `names` */
	uint32_t line;   /* from which the function was called; 0: not known */
	enum range_kind kind;
};

struct profile_event {
	int64_t at_ns;
	uint64_t address;
	int64_t bytes; /* negative: freed; of a failure: requested */
	int64_t allocated, reserved;
	uint32_t thread;
	uint32_t order; /* in the file */
	uint8_t device, failed;
};

struct kept_name; /* of a hash table */

struct profile {
	struct profile_event *events;
	struct profile_range *ranges;
	size_t event_count, event_room, range_count, range_room;
	struct kept_name *names, *threads;
	char **name_texts;
	size_t name_count, name_room, thread_count;
	uint64_t name_bytes; /* that names and threads take */
	int64_t base_ns;     /* of all times, since the Unix epoch */
	int rank, world_size;
	uint32_t pid;
	char *host;
	char *gpu[MT_MAX_DEVICES];
	int64_t memory[MT_MAX_DEVICES];
	int has_python;
};

/* -1: the message says why the file is no such trace. */
int profile_read(struct profile *p, const void *data, size_t size, struct err *e);
void profile_release(struct profile *p);

#endif
