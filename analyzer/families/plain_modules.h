/* The modules that several models of plain.def have. */
#ifndef MEMTRACE_FAMILIES_PLAIN_MODULES_H
#define MEMTRACE_FAMILIES_PLAIN_MODULES_H

#include "families/plain_model.h"

/* A parameter of out x in elements. */
struct param *plain_weight(struct machine *m, struct plain *g, int64_t out, int64_t in,
			   enum term_id term);
/* A weight of out x in elements, and a bias of `bias` elements. */
struct pair plain_pair(struct machine *m, struct plain *g, int64_t out, int64_t in, int64_t bias,
		       enum term_id term);
/* nn.Linear with a bias */
struct pair plain_dense(struct machine *m, struct plain *g, int64_t out, int64_t in,
			enum term_id term);
/* The parameters of all layers. */
void plain_make_layers(struct machine *m, struct plain *g,
		       void (*make_layer)(struct machine *m, struct plain *g,
					  struct plain_layer *l));
/* A LayerNorm of the hidden size. */
struct pair plain_norm(struct machine *m, struct plain *g);
tensor plain_normed(struct machine *m, struct plain *g, const struct pair *norm, tensor x);
/* A projection, of linear() or conv1d(), the activation function, and a projection. */
tensor plain_mlp(struct machine *m, struct plain_layer *l, tensor x,
		 tensor (*project)(struct machine *m, tensor x, struct param *weight,
				   struct param *bias));
/* dropout_add: *x becomes residual + dropout(x). */
void plain_dropout_add(struct machine *m, tensor *x, tensor residual, double p);
/* Heads as torch.matmul takes them, a matrix for each, (b * a) x s x d: of one sequence a view, of
 * several a copy. */
tensor plain_factor(struct machine *m, const struct hparams *s, tensor heads);
/* (b * a) x s x d as b x s x (a * d), a copy; the gradient of several sequences is one too. */
tensor plain_merged(struct machine *m, const struct hparams *s, tensor x);
/* eager_attention_forward of queries, keys and values: softmax(q k^T * scaling + bias + mask).
 * `bias` and `mask` may be `none`. *weights are the caller's. */
tensor plain_eager(struct machine *m, struct plain *g, const tensor *in, tensor bias, tensor mask,
		   tensor *weights);
/* Attention of x to itself, with a projection each for queries, keys and values; `last`: its output
 * layer, or NULL. *weights are the caller's. */
tensor plain_attention(struct machine *m, struct plain_layer *l, tensor x, const struct pair *last,
		       tensor *weights);
/* The attention of queries, keys and values, of which the first part of each head turns: queries
 * and keys are replaced. *weights are the caller's. */
tensor plain_rotary_attention(struct machine *m, struct plain *g, tensor *in, tensor *weights);
/* The rest of such a model: its embedding, with positions and mask; its layers and output (the
 * embedding and x are taken, the variable of the former lives as long as the layers run); its
 * parameters but for the head's. */
tensor plain_rotary_embedded(struct machine *m, struct plain *g);
tensor plain_rotary_output(struct machine *m, struct plain *g,
			   tensor (*block)(struct machine *m, void *context, tensor input),
			   tensor embedded, tensor x, tensor *logits);
void plain_rotary_make(struct machine *m, struct plain *g,
		       void (*make_layer)(struct machine *m, struct plain *g,
					  struct plain_layer *l));
/* (x * cos) + (rotate_half(x) * sin) */
tensor plain_turned(struct machine *m, struct plain *g, tensor x);
/* The activation function of the feed-forward network. */
tensor plain_activated(struct machine *m, const struct plain *g, tensor x);
/* The classes of a classifier; 0: the model predicts tokens. */
int64_t plain_classes(const struct hparams *s);
/* Replaces the batch of the loop: token ids or images, and a label for each row of a classifier, or
 * for each token of a decoder. */
void plain_batch(struct machine *m, const struct hparams *s, struct loop *loop);
/* torch.nn.CrossEntropyLoss of the logits as they are. */
tensor plain_loss(struct machine *m, tensor logits, tensor targets);
/* g->places = torch.arange(s) + 0, the positions of the tokens. */
void plain_place(struct machine *m, struct plain *g);
/* A layer returns `t` (taken) beside its result. */
void plain_give(struct machine *m, struct plain *g, tensor t);
/* The layers one after the other; x is taken. The variable `outputs` has what a layer returned
 * until the next one returns. */
tensor plain_layers(struct machine *m, struct plain *g,
		    tensor (*block)(struct machine *m, void *context, tensor input), tensor x);
/* Releases the tensors that all layers share: struct plain_code's release(). */
void plain_release(struct machine *m, void *model);
/* The logits of the head, and the loss of predicting tokens; x is taken. */
tensor plain_output(struct machine *m, struct plain *g, tensor x, tensor *logits);

#endif
