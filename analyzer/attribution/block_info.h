/* Facts about the live blocks of one moment: for each block, the spans in which it was allocated
 * and freed; for all of them together, what only a comparison shows. */
#ifndef MEMTRACE_BLOCK_INFO_H
#define MEMTRACE_BLOCK_INFO_H

#include "attribution/attribution.h"
#include "attribution/lifetime.h"
#include "attribution/spans.h"
#include "attribution/workspace.h"

#define LINE_KINDS 4 /* hints that need the order of a function's lines */

/* The live blocks of one stack. */
struct siblings {
	uint32_t last_step; /* of the latest allocation */
	/* Numbers of calls of the model, counted before the allocations: the lowest and highest. */
	uint32_t first_call, last_call;
	uint32_t blocks;
	uint32_t workspaces; /* blocks of a workspace's size that stay */
};

/* The device's spans, and other facts that are not of a single block. */
struct block_setting {
	const struct spans *spans;
	const struct tables *tables;
	uint64_t end_ns; /* events after it do not count: the job had failed, or the trace ended */
	bytes outlived; /* allocated by the backward passes of the whole trace and not freed by them
			 */
};

struct block_context {
	struct block_setting in;
	size_t span_count;         /* of those that count */
	struct siblings *siblings; /* of each stack */
	uint32_t *calls;           /* of each span: calls of a model before it */
	uint32_t *after;           /* of each span: the first one behind the next backward pass */
	uint32_t *kept;            /* of each span: live blocks that outlive that backward pass */
	struct workspace_sizes workspaces;
	int workspaces_last; /* a thread keeps its workspace */
	/* Of each size: when backward passes allocated the first block of it that stays, and how
	 * many of it the first step's forward passes keep. */
	uint64_t first_workspace[WORKSPACE_SIZES];
	unsigned kept_workspaces[WORKSPACE_SIZES];
	int has_autograd;          /* a thread of autograd's has allocated */
	int many_workspaces;       /* backward passes keep several blocks of a workspace's size */
	int one_workspace;         /* a single block of such a size stays */
	int buckets_are_gradients; /* DDP's gradient_as_bucket_view */
	struct {
		uint32_t least, most; /* lines that allocated live blocks */
	} lines[LINE_KINDS];
};

struct block_info {
	const struct span *alloc_span;    /* NULL: not known */
	const struct span *free_span;     /* NULL: not freed */
	uint32_t alloc_flags, free_flags; /* enum stack_flag of the two events */
	enum block_hint hint;
	size_t backward_end; /* the first span behind the next backward pass; span_count: none */
	struct siblings siblings; /* live blocks with the same stack, this one included */
	int is_transient;         /* see struct lifetime */
	/* Without a stack, and by the thread that waits for the backward pass: the block is of
	 * what comes behind it, whose own blocks are too small for a span. */
	int is_between;
	bytes bytes;
	uint64_t alloc_ns;
	stack_tags alloc_tags;
};

/* `l`: the lifetimes of one device at one moment. */
void block_context_init(struct block_context *c, const struct lifetimes *l,
			const struct block_setting *in);
void block_context_release(struct block_context *c);

/* Was the block still live when the next backward pass was over? */
int block_outlives_backward(const struct block_context *c, const struct block_info *f);
/* Did the next backward pass leave most of what the forward pass with this block saved? */
int block_is_of_unused_graph(const struct block_context *c, const struct block_info *f);

struct block_info block_info_of(const struct block_context *c, const struct lifetime *l);
/* The hint of a stack, after a comparison of the live blocks. Never one of those that lines decide.
 */
enum block_hint block_context_hint(const struct block_context *c, const struct stack_info *p);

static inline size_t span_index(const struct block_context *c, const struct span *s)
{
	return (size_t)(s - c->in.spans->list);
}

#endif
