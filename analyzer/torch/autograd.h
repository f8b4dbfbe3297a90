/* The graph of a forward pass, and its backward pass. */
#ifndef MEMTRACE_TORCH_AUTOGRAD_H
#define MEMTRACE_TORCH_AUTOGRAD_H

#include "torch/machine.h"

/* A node with edges to the inputs that need gradients; NULL if no input does. */
struct grad_node *grad_node_new(struct machine *m,
				void (*gradient)(struct machine *, struct grad_node *),
				const tensor *inputs, int count);
/* Saves `t` for the backward pass. `n` may be NULL: nothing is saved. */
void save_for_backward(struct machine *m, struct grad_node *n, tensor t);
/* Puts `t` (taken) into saved[], past the hooks. */
void node_keep(struct grad_node *n, tensor t);
tensor with_grad_fn(tensor t, struct grad_node *n, int output);
/* x with a hook: backward runs `gradient` when the gradient of x is computed; n->hook is `hook`. */
tensor with_backward_hook(struct machine *m, tensor x,
			  void (*gradient)(struct machine *, struct grad_node *), void *hook);
/* Gives the node the gradient (taken) of one of its outputs, which has none yet. */
void node_receive(struct grad_node *n, int output, tensor gradient);
void node_clear_saved(struct machine *m, struct grad_node *n);
/* Runs and frees the tape's graph. `gradient` (taken) is that of `loss`. */
void backward(struct machine *m, struct tape *tape, tensor loss, tensor gradient);
/* Frees a graph that was not run. */
void tape_free(struct machine *m, struct tape *tape);

/* Initializes a parameter of out x in elements and allocates its storage. */
void param_make(struct machine *m, struct param *p, int64_t out, int64_t in, enum dtype type,
		enum term_id term);
void param_init(struct param *p);
/* loss.backward() */
void loss_backward(struct machine *m, struct tape *tape, tensor loss);

#endif
