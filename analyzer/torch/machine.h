/*
 * PyTorch's eager execution as far as memory sees it: tensors with reference counts, the autograd
 * graph that keeps some of them, and the order in which both take and give blocks. A model family
 * (gpt.c, llama.c, …) is written as its forward pass, operation by operation (ops.h); backward
 * passes follow from the operations. What comes out is a sequence of allocations and frees,
 * replayed at once by the caching allocator's model.
 *
 * Shapes are element counts (`n`) and widths; sizes are bytes. A `tensor` is a value that points to
 * counted storage: whoever gets one from an operation owns one reference and drops it, as Python's
 * variables do.
 */
#ifndef MEMTRACE_MACHINE_H
#define MEMTRACE_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "torch/allocator.h"
#include "torch/constants.h"
#include "torch/dtype.h"
#include "torch/terms.h"

/* phases.def order: what the job is doing. */
enum step_phase { INIT, FORWARD, LOSS, BACKWARD, REDUCE, OPTIMIZER, STEADY, PHASES };
const char *step_phase_title(enum step_phase p);

/* Streams that a job has: streams.h */
#define STREAMS 5
struct stream_queue {
	int64_t queued, done; /* pieces of work */
	struct wait {
		int64_t at, until; /* what is queued from `at` on waits for `until` of the other */
		int on;
	} * waits; /* oldest first */
	size_t first, count, room;
	struct use {
		int64_t until;
		struct deferred_free *block;
	} * uses; /* freed blocks that this stream used */
	size_t use_first, use_count, use_room;
};

struct storage {
	struct allocation *block;
	int64_t bytes; /* as requested */
	int refs, stream;
	unsigned used; /* other streams that did: bits */
	enum term_id term;
	unsigned at; /* in machine.live */
	struct storage *next;
};

#define NODE_EDGES 5
#define NODE_SAVED 10

struct grad_node;

typedef struct tensor {
	struct storage *storage; /* NULL: no tensor */
	int64_t n;               /* elements */
	enum dtype type;
	int output_nr;             /* which output of `from` it is */
	int view;                  /* a view of another tensor: gradients are not added in place */
	struct grad_node *grad_fn; /* NULL: no gradient goes there */
} tensor;

static const tensor none = { .storage = NULL };

struct machine;

/* Hooks on the tensors that a node saves. */
struct saved_hooks {
	/* Before the node's backward function reads saved[]. */
	void (*unpack)(struct machine *m, struct grad_node *n);
	/* The node is freed. */
	void (*release)(struct machine *m, struct grad_node *n);
};

/* One function of the graph. Its backward reads in[], saved[] and sizes[], and fills out[i] for
 * every edge that is set. */
struct grad_node {
	void (*backward)(struct machine *m, struct grad_node *n);
	tensor saved[NODE_SAVED], in[NODE_EDGES], out[NODE_EDGES];
	struct grad_node *edge[NODE_EDGES];
	int edge_output[NODE_EDGES];
	int64_t sizes[6];
	enum dtype type;
	enum term_id term;      /* that the forward pass was in */
	unsigned char kept;     /* saved[] filled so far */
	unsigned char in_graph; /* its tensors are in a CUDA graph's pool */
	struct param *param;    /* the node that accumulates into a parameter */
	/* torch.autograd.graph.saved_tensors_hooks: saved[] is filled by unpack(); NULL: no hooks
	 */
	const struct saved_hooks *saved_hooks;
	void *packed; /* the hooks' own */
	void *ctx;    /* an autograd.Function's own, from malloc(); freed with the node */
	void *hook;   /* whose backward hook it is */
	struct grad_node *before; /* in its tape */
};

/* A parameter with its gradient; `at` of `grad` NULL: none yet. */
struct param {
	tensor value, grad, cast; /* cast: autocast's copy, while its cache lives */
	tensor copy, transposed;  /* in fp8 */
	int quantized;            /* its products are in fp8 */
	struct grad_node accumulate;
	int64_t in;    /* columns: what a linear layer's input has; 0: no parameter but a leaf */
	int64_t stack; /* matrices of experts in it; 0: one */
	enum term_id term;
	int64_t shard;          /* elements that this rank's optimizer has; 0: all, -1: none */
	struct fsdp_unit *unit; /* FSDP1: whose flat parameter it is a view of */
	int64_t offset;         /* ZeRO: in the flat group */
	struct sharded_param *sharded; /* ZeRO-3 */
	tensor piece;                  /* and this rank's, until all are one */
	int in_bucket;                 /* its gradient is a view of a bucket */
	int expected, arrived;
};

/* The graph of one forward pass. */
struct tape {
	struct grad_node *last;
};

/* What was live at a moment. */
struct machine_peak {
	int64_t bytes[TERMS]; /* of blocks */
	int64_t allocated;
	enum step_phase phase;
	int step;
};

/* A block that was live at the peak. */
struct machine_block {
	enum term_id term;
	int64_t requested, size; /* bytes asked for, bytes of the block */
};

struct machine {
	struct allocator *allocator;
	struct constants constants;
	struct storage **live;
	size_t live_count, live_room;
	struct storage **storages; /* all that were ever made */
	size_t storage_count, storage_room;
	int64_t by_term[TERMS];
	struct machine_peak peak, steady;
	int64_t initial_peak; /* of the initialization */
	int keep_blocks;      /* fill peak_blocks as well: slower */
	struct machine_block *peak_blocks;
	size_t peak_count, peak_room;
	int peak_pending;          /* the state is the highest so far and not yet in `peak` */
	enum term_id current_term; /* what the next tensors are */
	enum step_phase phase;
	int step, steps, stream;
	struct stream_queue streams[STREAMS];
	int in_graph; /* a CUDA graph is replayed: tensors lie in its pool, freed since capture */
	int backward; /* the autograd thread runs */
	int no_grad;
	/* autocast: F32 is off; the copies of weights that its cache holds */
	enum dtype autocast;
	struct param **cast;
	size_t cast_count, cast_room;
	struct tape *tape;
	/* saved_tensors_hooks: takes `t`, which `n` wants to save; NULL: saved[] has it */
	void (*pack)(struct machine *m, struct grad_node *n, tensor t);
	/* recomputation: see checkpoint.c */
	struct checkpoint *checkpoint; /* the region that runs for the first time or once more */
	int replaying;                 /* it runs once more */
	int stopped;
	const struct module_hooks *module_hooks; /* module.h; NULL: none */
	/* cuBLAS's workspaces that last, by thread */
	tensor workspace[2];
	void (*on_gradient)(struct machine *m,
			    struct param *p); /* after a gradient was accumulated */
	void *family;
	struct ddp *ddp;
	struct zero *zero;
	struct zero3 *zero3;
	int64_t in_flight; /* micro-batches whose activations are kept at once, at most */
	int out_of_memory;
	FILE *events; /* for debugging: every event as a line */
	struct storage *spare;
	struct grad_node *spare_nodes;
	int64_t event_count;
};

void machine_init(struct machine *m, const struct allocator_settings *s, int64_t device);
void machine_release(struct machine *m);

/* ---- tensors ---- */
tensor tensor_new(struct machine *m, int64_t n, enum dtype type);
/* The same with a term of its own. */
tensor tensor_new_as(struct machine *m, enum term_id term, int64_t n, enum dtype type);
tensor tensor_new_on(struct machine *m, int stream, enum term_id term, int64_t n, enum dtype type);
tensor tensor_ref(tensor t);
/* Sets *t to no tensor. */
void tensor_unref(struct machine *m, tensor *t);
/* *t is what `now` is: Python's assignment to a variable. */
void tensor_assign(struct machine *m, tensor *t, tensor now);
/* A block that lives for one kernel. */
void scratch(struct machine *m, int64_t bytes);
void tensor_set_term(struct machine *m, tensor t, enum term_id term);
/* FSDP's resizing of a storage that others still refer to: to nothing, and back. */
void storage_empty(struct machine *m, tensor t);
void storage_fill(struct machine *m, tensor t, enum dtype type);
/* A storage without a block, and the block of one that others still refer to given to it. */
tensor storage_like(struct machine *m, tensor t);
void storage_move(struct machine *m, tensor from, tensor to);
/* The state after the optimizer's step, before the next forward pass. */
void machine_steady(struct machine *m);
/* torch.cuda.reset_peak_memory_stats(): what the initialization needed at most is told apart. */
void machine_forget_peak(struct machine *m);
/* Brings `peak` up to date. */
void machine_settle(struct machine *m);

#endif
