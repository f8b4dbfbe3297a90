/* What distinguishes transformers' decoders from Llama: the rows of decoders.def. */
#ifndef MEMTRACE_FAMILIES_DECODERS_H
#define MEMTRACE_FAMILIES_DECODERS_H

struct decoder {
	const char *type; /* model_type */
	enum {
		NORM_CAST,           /* weight * x.to(type) */
		NORM_IN_FP32,        /* (weight * x).to(type) */
		NORM_PLUS_ONE,       /* (x * (1 + weight)).to(type) */
		NORM_WITHOUT_WEIGHT, /* LayerNorm in fp32 */
	} norm;
	enum { NORMS_BEFORE, NORMS_AFTER, NORMS_BOTH } norms; /* of attention and feed-forward */
	enum {
		QK_NONE,
		QK_WHOLE,    /* all heads of queries, all of keys */
		QK_AT_ONCE,  /* each head, right after the projection */
		QK_AFTER_ALL /* each head, after all projections */
	} qk_norm;
	int late_views; /* projections become heads after all of them are made */
	enum {
		WINDOW_NONE,
		WINDOW_MASK,     /* a mask for windows is made beside the other, without use */
		WINDOW_OF_FILE,  /* the only mask has the window of window_size, if that is given */
		WINDOW_OF_LAYERS /* all but every sixth layer, with rotary tables of their own */
	} window;
	enum {
		ROUTER_IN_FP32, /* scores.float(): Mixtral */
		ROUTER_CONVERTS /* softmax(scores, dtype=float), converted back: Qwen */
	} router;
	int fused_qkv;        /* one projection for q, k, v */
	int fused_mlp;        /* one projection for gate and up */
	int partial;          /* a part of a head turns (rotary_percent) */
	int interleaved;      /* neighbours turn together: each layer makes tables of its own */
	int dropout;          /* hidden_dropout of what the residual gets */
	int capped;           /* the attention's scores and the logits: cap * tanh(x / cap) */
	int scaled_embedding; /* the embedding times a number, which is a buffer */
	int scaled; /* embedding, what the residual gets, and logits, times a number each */
};

/* The decoder of a model_type; NULL: the type has another forward pass. */
const struct decoder *decoder_find(const char *type);

/* "one that has a formula: llama mistral ..." */
extern const char decoder_types[];

#endif
