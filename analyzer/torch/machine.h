/* A model of PyTorch's eager execution: tensors with reference counts, the autograd graph that
 * keeps some of them, and the order in which both allocate and free blocks. A model family
 * (families/gpt.c, megatron/layers.c, …) is written as its forward pass, operation by operation
 * (ops.h); backward passes follow from the operations. The result is a sequence of allocations and
 * frees, which the model of the caching allocator (allocator.h) executes at once.
 *
 * A tensor has a number of elements (`n`); sizes are bytes. A `tensor` is a value that points to a
 * reference-counted storage. A function that returns a tensor gives its caller one reference, which
 * the caller releases with tensor_unref(), as a Python variable does. */
#ifndef MEMTRACE_TORCH_MACHINE_H
#define MEMTRACE_TORCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "allocator/allocator.h"
#include "torch/constants.h"
#include "torch/dtype.h"
#include "torch/terms.h"
#include "util/util.h"

/* Phases of a training step; their titles are `peak_phase` of an estimate. */
enum step_phase { INIT, FORWARD, LOSS, BACKWARD, REDUCE, OPTIMIZER, STEADY, STEP_PHASES };
const char *step_phase_title(enum step_phase p);

/* The work queue of a stream: streams.h. */
#define STREAMS 5
struct stream_queue {
	int64_t queued, done; /* pieces of work */
	struct wait {
		int64_t at, until; /* work from number `at` on waits for number `until` of stream
				      `on` */
		int on;
	} * waits; /* oldest first */
	size_t first, count, room;
	struct use {
		int64_t until;
		struct deferred_free *block;
	} * uses; /* freed blocks that this stream uses until that piece of work */
	size_t use_first, use_count, use_room;
};

struct storage {
	struct allocation *block;
	int64_t bytes; /* as requested */
	int refs, stream;
	unsigned used; /* bits: other streams that used it (record_stream) */
	enum term_id term;
	unsigned at; /* its index in machine.live, if that is kept */
	struct storage *next;
};

#define NODE_EDGES 6
#define NODE_SAVED 10

struct grad_node;

typedef struct tensor {
	struct storage *storage; /* NULL: `none`, no tensor */
	int64_t n;               /* elements */
	enum dtype type;
	unsigned char output_nr;   /* which output of grad_fn */
	unsigned char view;        /* a view of another tensor: gradients are not added in place */
	struct grad_node *grad_fn; /* the node that produced it, or that accumulates its gradient;
				      NULL: no gradient */
} tensor;

static const tensor none = { .storage = NULL };

struct machine;

/* Hooks on the tensors that a node saves. */
struct saved_hooks {
	/* Before the node's backward function reads saved[]. */
	void (*unpack)(struct machine *m, struct grad_node *n);
	/* Frees what pack() kept for the node. */
	void (*release)(struct machine *m, struct grad_node *n);
};

/* A function of the graph. backward() reads in[] (gradients of the outputs), saved[] and sizes[],
 * and fills out[i] for every edge[i] that is not NULL. */
struct grad_node {
	void (*backward)(struct machine *m, struct grad_node *n);
	struct grad_node *before; /* the node recorded before it */
	struct grad_node *edge[NODE_EDGES];
	unsigned char edge_output[NODE_EDGES];
	unsigned char params;   /* bits: the edges that lead to a parameter */
	unsigned char received; /* bits: the outputs that have a gradient */
	unsigned char kept;     /* filled elements of saved[] */
	unsigned char ordered;  /* a linear layer: the gradient of its result has its dimensions in
				   another order, and is copied */
	unsigned char in_graph; /* its tensors are in a CUDA graph's pool */
	enum dtype type;
	enum term_id term;   /* current_term of the forward pass */
	struct param *param; /* AccumulateGrad: its parameter */
	/* torch.autograd.graph.saved_tensors_hooks: unpack() fills saved[]; NULL: no hooks */
	const struct saved_hooks *saved_hooks;
	void *packed; /* data of saved_hooks */
	void *ctx;    /* ctx of an autograd.Function, from malloc(); freed with the node */
	void *hook;   /* data of a backward hook */
	int64_t sizes[6];
	tensor in[NODE_EDGES];
	/* Not cleared for the next use of the node: their storages are NULL by then. */
	tensor out[NODE_EDGES], saved[NODE_SAVED];
};

/* A parameter with its gradient, which is `none` until the first backward pass. */
struct param {
	tensor value, grad, cast; /* cast: the copy in autocast's cache */
	tensor copy, transposed;  /* fp8 copies */
	int quantized;            /* its matrix products are in fp8 */
	int frozen;               /* it has no gradient */
	struct grad_node accumulate;
	int64_t in; /* columns: the input width of a linear layer; 0: a leaf that is no parameter */
	int64_t stack; /* number of experts' matrices; 0: one matrix */
	enum term_id term;
	int64_t shard;          /* elements that this rank's optimizer updates; 0: all, -1: none */
	struct fsdp_unit *unit; /* FSDP1: the unit; the parameter is a view of its flat parameter */
	int64_t offset;         /* ZeRO: offset in the flat group */
	int64_t bucket;         /* Megatron's own FSDP: the bucket that it is in */
	struct sharded_param *sharded; /* ZeRO-3 */
	tensor partition; /* ZeRO-3: this rank's partition, until all are copied into one tensor */
	int in_bucket;    /* its gradient is a view of a bucket */
	int expected, arrived;
};

/* The graph of one forward pass, newest node first. */
struct tape {
	struct grad_node *last;
};

/* Live bytes at a moment. */
struct machine_peak {
	int64_t bytes[TERMS]; /* bytes of blocks, by term */
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
	struct storage **live; /* of keep_blocks */
	size_t live_count, live_room;
	struct slabs storages, nodes; /* all of them, live or spare */
	int64_t by_term[TERMS];
	struct machine_peak peak, steady;
	int64_t initial_peak; /* the peak of the initialization */
	int keep_blocks;      /* also fill peak_blocks (slower) */
	struct machine_block *peak_blocks;
	size_t peak_count, peak_room;
	int peak_pending; /* the present state is the peak, and is not yet copied to `peak` */
	enum term_id current_term; /* the term of the next tensors */
	enum term_id part;         /* that of all activations of a part of the model; TERMS: none */
	enum step_phase phase;
	int step, steps, stream;
	struct stream_queue streams[STREAMS];
	size_t deferred_count; /* freed blocks that streams use */
	int in_graph; /* a CUDA graph is replayed: its tensors are in its pool and are not allocated
		       */
	int backward; /* the autograd thread runs */
	int no_grad;
	/* autocast's type (F32: off), and the parameters with a copy in its cache */
	enum dtype autocast;
	struct param **cast;
	size_t cast_count, cast_room;
	struct tape *tape;
	/* saved_tensors_hooks: called instead of saving `t` in node `n`; NULL: no hooks */
	void (*pack)(struct machine *m, struct grad_node *n, tensor t);
	void *offloader, *offloading; /* offload/groups.c: data of pack() */
	/* checkpoint.c: activation recomputation */
	struct checkpoint *checkpoint; /* the region that runs */
	/* the regions whose calls are kept; with the last one, what all of them refer to goes */
	size_t checkpoints;
	void (*unreferenced)(struct machine *m, void *model);
	void *referring;
	int replaying; /* it runs for the second time */
	int stopped;
	const struct module_hooks *module_hooks; /* module.h; NULL: none */
	unsigned measured;                       /* bits: compiled kernels that have run */
	/* kept cuBLAS workspaces: of the main thread, of the autograd thread */
	tensor workspace[2];
	void (*on_gradient)(struct machine *m,
			    struct param *p); /* runs after a gradient was accumulated */
	void *family;
	struct ddp *ddp;
	struct zero *zero;
	struct zero3 *zero3;
	struct unit_buffers *unit_buffers;
	int64_t in_flight; /* the most micro-batches that have activations at the same time */
	int out_of_memory;
	/* The training loop ends before the next step if the peak is larger; 0: it never does. */
	int64_t enough;
	FILE *events; /* NULL, or every allocation and free is written there as a line */
	struct storage *spare;
	struct grad_node *spare_nodes;
	int64_t event_count;
};

void machine_init(struct machine *m, const struct allocator_settings *s, int64_t device);
void machine_release(struct machine *m);

/* ---- tensors ---- */
tensor tensor_new(struct machine *m, int64_t n, enum dtype type);
/* tensor_new() with another term than current_term, or on another stream. */
tensor tensor_new_as(struct machine *m, enum term_id term, int64_t n, enum dtype type);
tensor tensor_new_on(struct machine *m, int stream, enum term_id term, int64_t n, enum dtype type);
tensor tensor_ref(tensor t);
/* A view of the first n elements, which the caller owns. */
tensor tensor_part(tensor t, int64_t n);
/* Releases the reference and sets *t to `none`. */
void tensor_unref(struct machine *m, tensor *t);
/* Python's `t = now`: `now` is taken, the old tensor is released. */
void tensor_assign(struct machine *m, tensor *t, tensor now);
/* Allocates and frees a block, which lives for one kernel. */
void scratch(struct machine *m, int64_t bytes);
void tensor_set_term(struct machine *m, tensor t, enum term_id term);
/* Frees the block of a storage that tensors still refer to, and allocates one again (FSDP:
 * storage.resize_). */
void storage_empty(struct machine *m, tensor t);
void storage_fill(struct machine *m, tensor t, enum dtype type);
/* storage_like(): a tensor like `t` with a storage that has no block. storage_move(): moves the
 * block of `from` into the storage of `to`. */
tensor storage_like(struct machine *m, tensor t);
void storage_move(struct machine *m, tensor from, tensor to);
/* Records the steady state: after the optimizer's step, before the next forward pass. */
void machine_steady(struct machine *m);
/* Is there another step? Not if memory ran out, or the peak has become larger than `enough`. */
int machine_continues(const struct machine *m);
/* torch.cuda.reset_peak_memory_stats(): moves the peak to initial_peak. */
void machine_forget_peak(struct machine *m);
/* Brings `peak` and peak_blocks up to date. */
void machine_settle(struct machine *m);

#endif
