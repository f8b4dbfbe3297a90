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

enum dtype { F32, F16, BF16, F64, I64, I32, U8, BOOL, DTYPES };
int64_t dtype_width(enum dtype t);

/* terms.def: what a block is for. */
enum role {
#define TERM(name, id, component, title, formula, source) TERM_##name,
#include "torch/terms.def"
#undef TERM
	TERMS
};

/* phases.def order: what the job is doing. */
enum phase { INIT, FORWARD, LOSS, BACKWARD, REDUCE, OPTIMIZER, STEADY, PHASES };
const char *phase_title(enum phase p);

/* Streams that a job has: streams.h */
#define STREAMS 5
struct timeline {
	int64_t queued, done; /* pieces of work */
	struct wait {
		int64_t at, until; /* what is queued from `at` on waits for `until` of the other */
		int on;
	} *waits; /* oldest first */
	size_t first, count, room;
	struct use {
		int64_t until;
		struct lent *block;
	} *uses; /* freed blocks that this stream used */
	size_t use_first, use_count, use_room;
};

struct storage {
	struct allocation *block;
	int64_t bytes; /* as requested */
	int refs, stream;
	unsigned used; /* other streams that did: bits */
	enum role term;
	unsigned at; /* in machine.live */
	struct storage *next;
};

#define NODE_EDGES 5
#define NODE_SAVED 10

struct node;

typedef struct tensor {
	struct storage *at; /* NULL: no tensor */
	int64_t n;          /* elements */
	enum dtype type;
	int output;        /* which output of `from` it is */
	int view;          /* a view of another tensor: gradients are not added in place */
	struct node *from; /* NULL: no gradient goes there */
} tensor;

static const tensor none = { .at = NULL };

struct machine;

/* One function of the graph. Its backward reads in[], saved[] and sizes[], and fills out[i] for
 * every edge that is set. */
struct node {
	void (*backward)(struct machine *m, struct node *n);
	tensor saved[NODE_SAVED], in[NODE_EDGES], out[NODE_EDGES];
	struct node *edge[NODE_EDGES];
	int edge_output[NODE_EDGES];
	int64_t sizes[6];
	enum dtype type;
	enum role term;      /* that the forward pass was in */
	unsigned char kept;  /* saved[] filled so far */
	unsigned char in_graph; /* its tensors are in a CUDA graph's pool */
	struct param *param; /* the node that accumulates into a parameter */
	struct checkpoint *checkpoint;
	struct reentrant *reentrant;
	void *hook;          /* whose backward hook it is */
	struct node *before; /* in its tape */
};

/* A parameter with its gradient; `at` of `grad` NULL: none yet. */
struct param {
	tensor value, grad, cast; /* cast: autocast's copy, while its cache lives */
	tensor copy, transposed;  /* in fp8 */
	int quantized;            /* its products are in fp8 */
	struct node accumulate;
	int64_t in; /* columns: what a linear layer's input has; 0: no parameter but a leaf */
	int64_t stack; /* matrices of experts in it; 0: one */
	enum role role;
	int64_t shard; /* elements that this rank's optimizer has; 0: all, -1: none */
	struct unit *unit; /* FSDP1: whose flat parameter it is a view of */
	int64_t offset; /* ZeRO: in the flat group */
	struct sharded *sharded; /* ZeRO-3 */
	tensor piece;		 /* and this rank's, until all are one */
	int in_bucket;  /* its gradient is a view of a bucket */
	int expected, arrived;
};

/* The graph of one forward pass. */
struct tape {
	struct node *last;
};

/* What the device, the libraries' versions and the environment make constant: constants.c */
struct constants {
	int64_t gemm_workspace;   /* bytes of cuBLAS's workspace */
	int64_t lt_workspace;     /* of cuBLASLt, for one call */
	int gemm_workspace_lasts; /* one for each (thread, stream), kept; otherwise one a call,
				     freed after it */
	int torch;                /* 2.15 is 215 */
	int sm;                   /* compute capability: 90 */
	/* Transformer Engine may choose kernels whose results differ from run to run */
	int nondeterministic;
	int64_t multiprocessors;
	int64_t te_workspace;    /* of Transformer Engine's products */
	int64_t flush_buffer;    /* of torch.compile's measurements */
	int gpu_given, torch_given, workspace_given;
	int64_t context; /* CUDA context, outside the allocator */
};

/* What was live at a moment. */
struct snapshot {
	int64_t bytes[TERMS]; /* of blocks */
	int64_t allocated;
	enum phase phase;
	int step;
};

/* A block that was live at the peak. */
struct held {
	enum role term;
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
	struct snapshot peak, steady;
	int64_t initial_peak; /* of the initialization */
	int keep_blocks;      /* fill peak_blocks as well: slower */
	struct held *peak_blocks;
	size_t peak_count, peak_room;
	int peak_pending; /* the state is the highest so far and not yet in `peak` */
	enum role as;     /* what the next tensors are */
	enum phase phase;
	int step, steps, stream;
	struct timeline streams[STREAMS];
	int in_graph; /* a CUDA graph is replayed: tensors lie in its pool, freed since capture */
	int backward; /* the autograd thread runs */
	int no_grad;
	/* autocast: F32 is off; the copies of weights that its cache holds */
	enum dtype autocast;
	struct param **cast;
	size_t cast_count, cast_room;
	struct tape *tape;
	/* recomputation: see checkpoint.c */
	struct checkpoint *recording, *replaying;
	int stopped;
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
	struct node *spare_nodes;
	int64_t event_count;
};

void machine_init(struct machine *m, const struct allocator_settings *s, int64_t device);
void machine_release(struct machine *m);

/* ---- tensors ---- */
tensor make(struct machine *m, int64_t n, enum dtype type);
/* The same with a term of its own. */
tensor make_as(struct machine *m, enum role term, int64_t n, enum dtype type);
tensor make_on(struct machine *m, int stream, enum role term, int64_t n, enum dtype type);
tensor hold(tensor t);
/* Sets *t to no tensor. */
void drop(struct machine *m, tensor *t);
/* *t is what `now` is: Python's assignment to a variable. */
void let(struct machine *m, tensor *t, tensor now);
/* A block that lives for one kernel. */
void scratch(struct machine *m, int64_t bytes);
void retag(struct machine *m, tensor t, enum role term);
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

/* ---- the graph ---- */
/* A node with edges to those inputs that need gradients; NULL where none does. */
struct node *record(struct machine *m, void (*gradient)(struct machine *, struct node *),
		    const tensor *inputs, int count);
/* Keeps `t` for the backward pass. n may be NULL. */
void save(struct machine *m, struct node *n, tensor t);
tensor result(tensor t, struct node *n, int output);
/* x, with `gradient` to be run when its gradient is there; n->hook is `hook`. */
tensor hooked(struct machine *m, tensor x, void (*gradient)(struct machine *, struct node *),
	      void *hook);
void drop_saved(struct machine *m, struct node *n);
/* Runs and frees the tape's graph, beginning with `gradient` (taken) of `loss`. */
void backward(struct machine *m, struct tape *tape, tensor loss, tensor gradient);
/* Frees a graph that nobody runs. */
void tape_free(struct machine *m, struct tape *tape);

/* A parameter of out x in elements, its storage made now. */
void param_make(struct machine *m, struct param *p, int64_t out, int64_t in, enum dtype type,
		enum role term);
void param_init(struct param *p);

/* ---- recomputation without reentrance (torch.utils.checkpoint, use_reentrant=False) ---- */
struct checkpoint {
	tensor (*run)(struct machine *m, void *context, tensor input);
	void *context;
	tensor input;
	struct node **saves; /* whose tensor each save is, in order */
	size_t count, room, seen;
	int done, refs;
	enum dtype autocast;
};
tensor checkpointed(struct machine *m, tensor (*run)(struct machine *, void *, tensor),
		    void *context, tensor input);
/* Before `n` reads its saved tensors. */
void checkpoint_fill(struct machine *m, struct node *n);

/* ---- and with (Megatron's CheckpointFunction, use_reentrant=True): a graph of its own within the
 * backward pass ---- */
#define REENTRANT_INPUTS 4
#define REENTRANT_CONTEXT 64
/* Who holds an input holds the gradient that a backward pass gives it. */
struct keeper {
	tensor value, gradient;
};
struct reentrant {
	tensor (*run)(struct machine *m, void *context, const tensor *in);
	int count;
	_Alignas(16) unsigned char context[REENTRANT_CONTEXT];
	struct param leaf[REENTRANT_INPUTS];
	struct keeper *keepers; /* of each input; NULL: nobody */
};
void drop_keeper(struct machine *m, struct keeper *k);
/* `context` of `size` bytes is copied. */
tensor checkpoint_reentrant(struct machine *m,
			    tensor (*run)(struct machine *, void *, const tensor *),
			    const void *context, size_t size, const tensor *in, int count);

#endif
