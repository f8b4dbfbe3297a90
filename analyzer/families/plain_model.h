/* A model of plain.def while it runs: weights, and tensors that all layers share. */
#ifndef MEMTRACE_FAMILIES_PLAIN_MODEL_H
#define MEMTRACE_FAMILIES_PLAIN_MODEL_H

#include "distributed/wrapper.h"
#include "families/loop.h"
#include "torch/ops.h"

/* A module's weight and bias: nn.Linear, Conv1D, nn.LayerNorm. */
struct pair {
	struct param *weight, *bias;
};

/* hidden_act, as far as autograd keeps other tensors for it */
enum activation { ACTIVATION_OTHER, ACTIVATION_GELU, ACTIVATION_GELU_NEW, ACTIVATION_RELU };

struct plain_layer {
	struct plain *model;
	struct pair norm[3], qkv, out, gate, up, down;
	struct pair parts[3];  /* queries, keys and values that have a projection each */
	struct pair cross[4];  /* attention to an encoder: queries, keys, values, output */
	tensor cache[2];       /* keys and values, until the end of the forward pass */
	struct param *buckets; /* of relative positions, in the first layer of a stack */
};

/* The layers of T5's encoder or decoder while they run, and what all of them share. The layers are
 * functions of the tensors here, and refer to them. */
struct plain_stack {
	int is_decoder;
	tensor bias;    /* of relative positions, for the scores of each layer */
	tensor mask;    /* of eager attention */
	tensor encoded; /* the encoder's result */
	tensor cross;   /* the bias of the attention to it */
};

struct plain {
	const struct hparams *s;
	const struct plain_code *code;
	struct wrapper w;
	enum activation activation;
	double embedding_dropout;
	struct plain_layer *layers;
	struct param *tokens, *positions, *head, *head_bias;
	struct pair patches;     /* the convolution over an image */
	struct pair first, last; /* norms before and after the layers */
	struct pair middle;      /* after the layers of an encoder */
	struct plain_stack stacks[2];
	struct param
		zeros; /* a leaf, which gets a gradient: the bias of the attention to the encoder */
	/* of an encoder: token types, and the layers after the blocks */
	struct param *types;
	struct pair dense, classes;
	tensor numbers[2]; /* position_ids, token_type_ids */
	tensor mask, places;
	tensor alibi; /* what ALiBi adds to the scores */
	/* The attention probabilities that a layer returned beside its result: of the layer that
	 * has just run, and of the one before it. */
	tensor given, held;
	int64_t rotary; /* the part of a head that turns */
	tensor cos, sin, frequencies[2];
	struct loop loop;
};

struct plain_code {
	/* Adds the parameters, in the order of model.parameters(). */
	void (*make)(struct machine *m, struct plain *g);
	tensor (*forward)(struct machine *m, void *model, tensor *logits);
	/* Releases what the functions of checkpointed layers kept. */
	void (*release)(struct machine *m, void *model);
	/* Rejects what the forward pass does not have. */
	void (*check)(const struct hparams *s, struct inputs *in);
	int eager;   /* there is no other attention */
	int grouped; /* query heads may share keys and values */
	int precise; /* eager attention's softmax is in fp32, and converted */
	int apart;   /* norms, heads and gates are its own: check() looks at them */
};

#endif
