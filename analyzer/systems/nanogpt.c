/* nanoGPT with fp32 weights under 16-bit autocast, Adam, no dropout, no flash attention. */
#include "systems/nanogpt.h"

#include "estimate/inputs.h"

#include <string.h>

#include "util/cublas.h"

#define SYMBOLS(X)                                                                \
	X(L, "layers, N_layers")                                                  \
	X(D, "hidden size, D_model")                                              \
	X(H, "attention heads, N_heads")                                          \
	X(V, "vocabulary size, D_vocab")                                          \
	X(T, "sequence length")                                                   \
	X(B, "batch, Bsz")                                                        \
	X(N, "parameters, N_param = L (12 D^2 + 2 D) + D (V + T) + D")            \
	X(N_buf, "elements of the attention masks, T^2 L")                        \
	X(N_e, "elements of an embedding, B T D")                                 \
	X(N_a, "elements of the attention's weights, B H T^2")                    \
	X(N_l, "logits, B T V")                                                   \
	X(r, "copies of the gradients: 2 in DDP without gradient_as_bucket_view") \
	X(w, "cuBLAS workspaces")                                                 \
	X(x, "1 with the batch itself")

#define TERMS(TERM)                                                                            \
	TERM(model, "parameters", "weights and mask buffers, fp32", "4 N + 4 N_buf",           \
	     "document 001, \"Weights, gradients and states\"", 4 * N + 4 * N_buf)             \
	TERM(optimizer, "optimizer_states", "Adam, fp32", "8 N",                               \
	     "document 001, \"Weights, gradients and states\"", 8 * N)                         \
	TERM(gradients, "gradients", "gradients, fp32", "4 N r",                               \
	     "document 001, \"Weights, gradients and states\"", 4 * N * r)                     \
	TERM(data, "inputs", "inputs and targets, int64", "2 B T 8",                           \
	     "document 001, \"Weights, gradients and states\"", 2 * B * T * 8 * x)             \
	TERM(cublas_workspace, "workspaces", "cuBLAS workspaces", "w 8519680",                 \
	     "document 001, appendix \"CuBLAS workspace\"", w *CUBLAS_WORKSPACE_OTHERS)        \
	TERM(attention, "activations", "attention blocks", "L (14 N_e + 6 N_a)",               \
	     "document 001, \"Attention block activations\"", L *(14 * N_e + 6 * N_a))         \
	TERM(feed_forward, "activations", "feed-forward blocks", "L 22 N_e",                   \
	     "document 001, \"Feed forward block activations\"", L * 22 * N_e)                 \
	TERM(final_norm, "activations", "final layer norm", "4 N_e",                           \
	     "document 001, \"Other transformer operations\"", 4 * N_e)                        \
	TERM(head, "activations", "input of the head", "2 N_e",                                \
	     "document 001, \"Other transformer operations\"", 2 * N_e)                        \
	TERM(cross_entropy, "activations", "logits, fp16 and fp32", "6 N_l",                   \
	     "document 001, \"Cross entropy\"", 6 * N_l)                                       \
	TERM(logits_backward, "temporaries", "logits at the start of the backward pass, fp32", \
	     "4 N_l", "document 001, \"Total peak memory\"", 4 * N_l)

#include "estimate/formula.h"

static wide count(struct inputs *in, const struct dims *x)
{
	wide L = SYMBOL(x, L), D = SYMBOL(x, D);
	wide n = L * (12 * D * D + 2 * D) + D * SYMBOL(x, V) + D;

	if (input_flag(in, CONFIG_include_embedding, 1))
		n += SYMBOL(x, T) * D;
	if (input_flag(in, CONFIG_bias, 0))
		n += D * (2 * L + 1);
	/* A count derived from the architecture is not the document's count. */
	if (config_is_derived(in->c, CONFIG_num_parameters))
		return n;
	return input_or(in, CONFIG_num_parameters, n, MAX_PARAMETERS);
}

static void read_sizes(struct inputs *in, struct dims *x)
{
	wide T, B, D;

	SYMBOL(x, L) = input_required(in, CONFIG_num_layers, MAX_LAYERS);
	SYMBOL(x, D) = D = input_required(in, CONFIG_hidden_size, MAX_WIDTH);
	SYMBOL(x, H) = input_required(in, CONFIG_num_attention_heads, MAX_HEADS);
	SYMBOL(x, V) = input_vocabulary(in);
	SYMBOL(x, T) = T = input_required(in, CONFIG_seq_length, MAX_TOKENS);
	SYMBOL(x, B) = B = input_required(in, CONFIG_micro_batch_size, MAX_BATCH);
	SYMBOL(x, N) = count(in, x);
	if (input_flag(in, CONFIG_attention_mask_buffers, 1))
		SYMBOL(x, N_buf) = T * T * SYMBOL(x, L);
	SYMBOL(x, N_e) = B * T * D;
	SYMBOL(x, N_a) = B * SYMBOL(x, H) * T * T;
	SYMBOL(x, N_l) = B * T * SYMBOL(x, V);
}

static void note_size(struct inputs *in, enum config_field f)
{
	wide n = input_or(in, f, 1, MAX_RANKS);

	if (n > 1)
		estimate_note(in->out,
			      "%s is %lld: the document is about one GPU, and divides nothing",
			      config_name(f), (long long)n);
}

static void add_notes(struct inputs *in, const struct dims *x, int zero)
{
	const struct config *c = in->c;

	note_size(in, CONFIG_tensor_model_parallel_size);
	note_size(in, CONFIG_pipeline_model_parallel_size);
	note_size(in, CONFIG_context_parallel_size);
	if (zero)
		estimate_note(in->out,
			      "ZeRO stage %d: the document is about one GPU, and shards nothing",
			      zero);
	if (GIVEN(c, ffn_hidden_size) && c->ffn_hidden_size != 4 * SYMBOL(x, D))
		estimate_note(in->out, "ffn_hidden_size is %lld: the document's is 4 D",
			      (long long)c->ffn_hidden_size);
	if (GIVEN(c, num_query_groups) && c->num_query_groups != SYMBOL(x, H))
		estimate_note(
			in->out,
			"num_query_groups is %lld: the document has as many key/value heads as heads",
			(long long)c->num_query_groups);
	if (VALUE_OR(c, swiglu, 0))
		estimate_note(in->out, "swiglu: the document counts GPT-2's two matrices");
	if (VALUE_OR(c, untie_embeddings_and_output_weights, 0))
		estimate_note(
			in->out,
			"the head has weights of its own: the document's shares the embedding's");
	if (GIVEN(c, attention) &&
	    (!strcmp(c->attention, "flash") || !strcmp(c->attention, "sdpa")))
		estimate_note(in->out,
			      "attention is %s: the document keeps the attention's weights",
			      c->attention);
	if (VALUE_OR(c, attention_dropout, 0) > 0 || VALUE_OR(c, hidden_dropout, 0) > 0)
		estimate_note(in->out, "the document has no dropout");
	if (VALUE_OR(c, bias, 0))
		estimate_note(
			in->out,
			"bias: the document's count has LayerNorm's biases, not those of linear layers");
	input_note_unmodelled(in);
}

static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	struct inputs in = { .c = c, .out = out, .e = e };
	enum precision precision = input_precision(&in);
	struct dims *x = &out->dims;
	int ddp, zero = input_zero_stage(&in, 0);

	read_sizes(&in, x);
	ddp = input_flag(&in, CONFIG_ddp,
			 input_or(&in, CONFIG_data_parallel_size, 1, MAX_RANKS) > 1);
	SYMBOL(x, r) = ddp && !input_flag(&in, CONFIG_gradient_as_bucket_view, 1) ? 2 : 1;
	SYMBOL(x, w) = input_or_zero(&in, CONFIG_cublas_workspaces, 2, 1000);
	SYMBOL(x, x) = input_flag(&in, CONFIG_data, 1);
	if (VALUE_OR(c, num_experts, 0) > 1)
		input_reject(&in, CONFIG_num_experts,
			     "none: the document has no formula for mixtures of experts");
	input_reject_other_optimizers(&in);
	if (in.failed)
		return -1;
	if (precision < PRECISION_FP16_MIXED)
		estimate_note(
			out, "precision is %s: the document has fp32 weights under 16-bit autocast",
			c->precision);
	add_notes(&in, x, zero);
	return 0;
}

static void add_results(const struct config *c, struct estimate *out)
{
	const struct dims *x = &out->dims;
	wide N = SYMBOL(x, N), D = SYMBOL(x, D), T = SYMBOL(x, T);
	wide activations = estimate_component(out, "activations");
	wide steady = out->total - activations - out->bytes[TERM_logits_backward];
	wide formula = 16 * N + 4 * SYMBOL(x, N_buf);
	int persists = input_flag(&(struct inputs){ .c = c, .out = out }, CONFIG_ddp,
				  VALUE_OR(c, data_parallel_size, 1) > 1);

	estimate_add_result(out, "num_params", N);
	estimate_add_result(out, "steady_state_bytes", steady);
	estimate_add_result(out, "steady_state_formula_bytes", formula);
	/* DDP's buckets keep the gradients; without DDP none are live before the backward pass. */
	estimate_add_result(out, "forward_start_bytes",
			    steady - (persists ? 0 : out->bytes[TERM_gradients]));
	estimate_add_result(out, "activations_bytes", activations);
	estimate_add_result(out, "peak_formula_bytes", formula + activations + 4 * SYMBOL(x, N_l));
	estimate_add_result(out, "eleuther_activations_bytes",
			    T * SYMBOL(x, B) * SYMBOL(x, L) * (34 * D + 5 * SYMBOL(x, H) * T));
}

const struct system nanogpt = {
	.name = "nanogpt",
	.title = "nanoGPT on one GPU, tensor by tensor",
	.source =
		"document 001, \"Transformer Memory Arithmetic: Understanding all the Bytes in nanoGPT\"",
	.leaves_out =
		"parallelism other than DDP, checkpointing, flash attention, dropout; autocast's copies of the "
		"weights, rounding of blocks, CUDA context (863 MiB there)",
	.space = { BIT(DIM_DP) | BIT(DIM_MBS), BIT(RECOMPUTE_NONE), BIT(0) },
	SYSTEM_TABLES,
};
