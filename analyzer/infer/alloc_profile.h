/*
 * The input of infer(), from one trace: the sizes of parameters in the order of their allocation,
 * how often the forward pass allocated each size, and the code that ran. It does not depend on what
 * was live at the peak.
 */
#ifndef MEMTRACE_ALLOC_PROFILE_H
#define MEMTRACE_ALLOC_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "util/size_counts.h"
#include "util/util.h"

/* The sources of parameters. Each is a sequence of its own: a model is initialized, then
 * converted (Module._apply), then sharded (FSDP). */
enum parameter_source { SOURCE_INIT, SOURCE_APPLY, SOURCE_SHARDED, SOURCES };

struct parameter_sizes {
	bytes *sizes;
	size_t count, room;
};

struct alloc_profile {
	struct parameter_sizes parameters[SOURCES];
	struct size_counts
		small; /* blocks before the first forward pass that are too small to have a stack */
	struct size_counts forward; /* blocks allocated while a module was called */
	bytes bucket;               /* the largest of DeepSpeed's buffers for gradients; 0: none */
	unsigned bucket_stacks;     /* stacks that allocate them: 0, 1, or 2 for more */
	uint32_t bucket_stack;
	uint64_t signatures; /* bits: signatures[] that a frame matches */
	char *model_type;    /* signature_folder() of the model_type; owned */
};

struct trace;

/* Reads all records of a trace. A trace that ends early gives what it has. */
void alloc_profile_take(struct alloc_profile *c, const struct trace *t);
void alloc_profile_release(struct alloc_profile *c);

#endif
