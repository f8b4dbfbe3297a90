/* The graph of a forward pass, and its backward pass. */
#ifndef MEMTRACE_AUTOGRAD_H
#define MEMTRACE_AUTOGRAD_H

#include "torch/machine.h"

/* A node with edges to those inputs that need gradients; NULL where none does. */
struct node *record(struct machine *m, void (*gradient)(struct machine *, struct node *),
		    const tensor *inputs, int count);
/* Keeps `t` for the backward pass. n may be NULL. */
void save(struct machine *m, struct node *n, tensor t);
/* Puts `t` (taken) into saved[], past the hooks. */
void node_keep(struct node *n, tensor t);
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
/* loss.backward() */
void backward_from(struct machine *m, struct tape *tape, tensor loss);

#endif
