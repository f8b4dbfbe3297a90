/* Llama models under 4D parallelism, stage by stage. Divisions come last; the document's "w(t)" is
 * 2 h^2 ((1 + k/a + 3f/(2h))/t + 1/h). */
#include "systems/llama_4d.h"

#include "estimate/inputs.h"

#include <string.h>

#define SYMBOLS(X)                                                         \
	X(a, "attention heads")                                            \
	X(b, "micro-batch size")                                           \
	X(c, "context-parallel size")                                      \
	X(d, "data-parallel size")                                         \
	X(h, "hidden size")                                                \
	X(f, "width of the feed-forward network, h_ffn")                   \
	X(k, "key/value heads")                                            \
	X(L, "layers")                                                     \
	X(p, "pipeline-parallel size")                                     \
	X(s, "sequence length")                                            \
	X(t, "tensor-parallel size")                                       \
	X(v, "vocabulary size")                                            \
	X(g, "bytes of one gradient")                                      \
	X(z, "GPUs that share the optimizer's states: d c with ZeRO-1")    \
	X(e, "embedding matrices on the stage: of the input, of the head") \
	X(n, "final norms on the stage")                                   \
	X(m, "micro-batches in flight on the stage: p - i")                \
	X(i, "1 on the first stage")                                       \
	X(j, "1 on the last stage")

/* Parameters of the stage on one tensor rank, times a p t: e h v/t + n h + (L/p) w(t). */
#define PARAMETERS                               \
	(e * h * v * a * p + n * h * a * p * t + \
	 L * (2 * h * h * (a + k) + 3 * h * f * a + 2 * h * a * t))

#define TERMS(TERM)                                                                                \
	TERM(weights, "parameters", "weights, bf16",                                               \
	     "2 (e h v/t + n h + (L/p) 2 h^2 ((1 + k/a + 3/2 f/h)/t + 1/h))",                      \
	     "document 003, eq. 7 to 10: the 2 of 6 + 12/(dc)", divide(2 * PARAMETERS, a * p * t)) \
	TERM(gradients, "gradients", "gradients, fp32",                                            \
	     "g (e h v/t + n h + (L/p) 2 h^2 ((1 + k/a + 3/2 f/h)/t + 1/h))",                      \
	     "document 003, eq. 7 to 10: the 4 of 6 + 12/(dc)", divide(g *PARAMETERS, a *p *t))    \
	TERM(optimizer, "optimizer_states", "master weights, momentum, variance",                  \
	     "12/z (e h v/t + n h + (L/p) 2 h^2 ((1 + k/a + 3/2 f/h)/t + 1/h))",                   \
	     "document 003, eq. 7 to 10: 12/(dc)", divide(12 * PARAMETERS, a * p * t * z))         \
	TERM(layers, "activations", "transformer layers",                                          \
	     "s b h/(t c) (12 + 4 k/a + 8 f/h) (L/p) m", "document 003, eq. 12, 15 and 17",        \
	     divide(s *b *(12 * h * a + 4 * k * h + 8 * f * a) * L * m, a * t * c * p))            \
	TERM(embedding, "activations", "embedding", "8 s b h m i/(t c)",                           \
	     "document 003, eq. 13 and 17; m is p on the first stage",                             \
	     divide(8 * s * b * h * m * i, t * c))                                                 \
	TERM(head, "activations", "language-model head", "4 s b h (1 + v/h) j/(t c)",              \
	     "document 003, eq. 14 and 17", divide(4 * s * b * (h + v) * j, t * c))

#include "estimate/formula.h"

static void set_stage(struct dims *x, wide stage, int tables, wide most_in_flight)
{
	wide p = SYMBOL(x, p), in_flight = p - stage;
	int first = stage == 0, last = stage == p - 1;

	/* Equation 18 counts one matrix at p = 1 too; the document's own tables count both, and the
	 * final norm. */
	SYMBOL(x, e) = p == 1 ? 1 + tables : first + last;
	SYMBOL(x, n) = p == 1 ? tables : last;
	SYMBOL(x, m) = most_in_flight && in_flight > most_in_flight ? most_in_flight : in_flight;
	SYMBOL(x, i) = first;
	SYMBOL(x, j) = last;
}

static void read_sizes(struct inputs *in, struct dims *x)
{
	SYMBOL(x, L) = input_required(in, CONFIG_num_layers, MAX_LAYERS);
	SYMBOL(x, h) = input_required(in, CONFIG_hidden_size, MAX_WIDTH);
	SYMBOL(x, f) = input_required(in, CONFIG_ffn_hidden_size, MAX_FFN);
	SYMBOL(x, a) = input_required(in, CONFIG_num_attention_heads, MAX_HEADS);
	SYMBOL(x, k) = input_or(in, CONFIG_num_query_groups, SYMBOL(x, a), MAX_HEADS);
	SYMBOL(x, s) = input_required(in, CONFIG_seq_length, MAX_TOKENS);
	SYMBOL(x, b) = input_required(in, CONFIG_micro_batch_size, MAX_BATCH);
	SYMBOL(x, v) = input_vocabulary(in);
	SYMBOL(x, t) = input_or(in, CONFIG_tensor_model_parallel_size, 1, MAX_RANKS);
	SYMBOL(x, p) = input_or(in, CONFIG_pipeline_model_parallel_size, 1, MAX_LAYERS);
	SYMBOL(x, c) = input_or(in, CONFIG_context_parallel_size, 1, MAX_RANKS);
	SYMBOL(x, d) = input_or(in, CONFIG_data_parallel_size, 1, MAX_RANKS);
}

static wide read_gradient_bytes(struct inputs *in)
{
	wide width = input_or(in, CONFIG_grad_bytes,
			      VALUE_OR(in->c, accumulate_allreduce_grads_in_fp32, 1) ? 4 : 2, 8);

	if (width != 2 && width != 4)
		input_reject(in, CONFIG_grad_bytes,
			     "4, or 2 as the document quotes from the ZeRO paper");
	else if (width == 2)
		estimate_note(in->out, "gradients of 2 bytes: the document's own equations have 4, "
				       "its 16 Psi quotes 2 from the ZeRO paper");
	return width;
}

static void check(struct inputs *in, enum precision precision, int zero)
{
	if (precision < PRECISION_FP16_MIXED || precision > PRECISION_FP8_MIXED)
		input_reject(in, CONFIG_precision,
			     "bf16-mixed: the document has bf16 weights and fp32 optimizer states");
	else if (precision != PRECISION_BF16_MIXED)
		estimate_note(in->out, "the document has bf16-mixed: %s is counted alike",
			      in->c->precision);
	if (zero > 1)
		input_reject(in, GIVEN(in->c, zero_stage) ? CONFIG_zero_stage : CONFIG_fsdp,
			     "0 or 1: the document has no formula for ZeRO-2 and ZeRO-3");
	if (VALUE_OR(in->c, num_experts, 0) > 1)
		input_reject(in, CONFIG_num_experts,
			     "none: the document has no formula for mixtures of experts");
	input_reject_other_optimizers(in);
}

static void add_notes(struct inputs *in, const struct dims *x, int zero)
{
	const struct config *c = in->c;

	if (SYMBOL(x, t) > 1 && !VALUE_OR(c, sequence_parallel, 0))
		estimate_note(in->out,
			      "sequence_parallel is not set: the document's formulas assume it");
	if (!zero)
		estimate_note(in->out,
			      "without ZeRO-1: the document's equation 4, with its 12 undivided");
	if (GIVEN(c, swiglu) && !c->swiglu)
		estimate_note(in->out,
			      "swiglu is false: the document counts Llama's three matrices");
	if (GIVEN(c, untie_embeddings_and_output_weights) &&
	    !c->untie_embeddings_and_output_weights)
		estimate_note(in->out,
			      "the head shares the embedding's weights: the document counts both");
	if (GIVEN(c, attention) && strcmp(c->attention, "flash"))
		estimate_note(in->out, "attention is %s: the document assumes FlashAttention 2",
			      c->attention);
	if (GIVEN(c, num_parameters) && !config_is_derived(c, CONFIG_num_parameters))
		estimate_note(in->out,
			      "num_parameters is not used: the formulas count layer by layer");
	if (GIVEN(c, kv_channels) && c->kv_channels * SYMBOL(x, a) != SYMBOL(x, h))
		estimate_note(in->out, "kv_channels is %lld: the document's heads are h/a wide",
			      (long long)c->kv_channels);
	input_note_unmodelled(in);
	input_note_division(in, CONFIG_num_layers, SYMBOL(x, L),
			    CONFIG_pipeline_model_parallel_size, SYMBOL(x, p));
	input_note_division(in, CONFIG_num_attention_heads, SYMBOL(x, a),
			    CONFIG_tensor_model_parallel_size, SYMBOL(x, t));
	input_note_division(in, CONFIG_num_query_groups, SYMBOL(x, k),
			    CONFIG_tensor_model_parallel_size, SYMBOL(x, t));
	input_note_division(in, CONFIG_ffn_hidden_size, SYMBOL(x, f),
			    CONFIG_tensor_model_parallel_size, SYMBOL(x, t));
	input_note_division(in, CONFIG_vocab_size, SYMBOL(x, v), CONFIG_tensor_model_parallel_size,
			    SYMBOL(x, t));
	input_note_division(in, CONFIG_seq_length, SYMBOL(x, s), CONFIG_context_parallel_size,
			    SYMBOL(x, c));
}

/* 0: p - i, for any number of micro-batches, as the document says. */
static wide most_in_flight(struct inputs *in, const struct dims *x)
{
	if (!input_flag(in, CONFIG_cap_in_flight, 0))
		return 0;
	return input_microbatches(in, SYMBOL(x, b), SYMBOL(x, d));
}

static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	struct inputs in = { .c = c, .out = out, .e = e };
	struct dims *x = &out->dims;
	int zero, tables;

	read_sizes(&in, x);
	zero = input_zero_stage(&in, 1);
	tables = !input_word(&in, CONFIG_variant, 0, "tables|eq18");
	check(&in, input_precision(&in), zero);
	SYMBOL(x, g) = read_gradient_bytes(&in);
	SYMBOL(x, z) = zero ? SYMBOL(x, d) * SYMBOL(x, c) : 1;
	set_stage(x, 0, tables, most_in_flight(&in, x));
	if (!in.failed)
		add_notes(&in, x, zero);
	return in.failed ? -1 : 0;
}

static void add_stage(struct estimate *out, const struct dims *x)
{
	struct stage *s = &out->stages[out->stage_count++];

	s->layers = SYMBOL(x, L);
	s->layers_of = SYMBOL(x, p);
	s->in_flight = SYMBOL(x, m);
	s->model_states = term_weights(x) + term_gradients(x) + term_optimizer(x);
	s->activations = term_layers(x) + term_embedding(x) + term_head(x);
	s->total = s->model_states + s->activations;
}

static wide parameters(const struct dims *x)
{
	wide h = SYMBOL(x, h), a = SYMBOL(x, a), k = SYMBOL(x, k), f = SYMBOL(x, f);

	return 2 * h * SYMBOL(x, v) + h +
	       divide(SYMBOL(x, L) * (2 * h * h * (a + k) + 3 * h * f * a + 2 * h * a), a);
}

static void add_results(const struct config *c, struct estimate *out)
{
	struct inputs in = { .c = c, .out = out };
	wide most = most_in_flight(&in, &out->dims), p = SYMBOL(&out->dims, p), stage_most = 0;
	int tables = !input_word(&in, CONFIG_variant, 0, "tables|eq18");
	struct dims x = out->dims;

	estimate_add_result(out, "num_params", parameters(&x));
	set_stage(&x, 0, 0, most);
	estimate_add_result(out, "eq18_bytes", estimate_sum(out->system, &x));
	set_stage(&x, 0, 1, most);
	estimate_add_result(out, "table_bytes", estimate_sum(out->system, &x));
	out->stages = xcalloc((size_t)p, sizeof(*out->stages));
	for (wide i = 0; i < p; i++) {
		set_stage(&x, i, tables, most);
		add_stage(out, &x);
		stage_most = largest(stage_most, out->stages[i].total);
	}
	estimate_add_result(out, "max_stage_bytes", stage_most);
	if (stage_most > out->total)
		estimate_note(out, "a later stage needs more than the first: see max_stage_bytes");
}

const struct system llama_4d = {
	.name = "llama-4d",
	.title = "Llama under tensor, pipeline, context and data parallelism",
	.source =
		"document 003, \"Accelerating Large Language Model Training with 4D Parallelism and "
		"Memory Consumption Estimator\"",
	.leaves_out =
		"temporary buffers, fragmentation, CUDA context, NCCL; recomputation; other than Llama, "
		"Adam, ZeRO-1, 1F1B, sequence parallelism",
	.builds_masks = 1, /* tables 10 and 11, see docs/planner.md */
	.space = { BIT(DIM_TP) | BIT(DIM_PP) | BIT(DIM_CP) | BIT(DIM_DP) | BIT(DIM_MBS),
		   BIT(RECOMPUTE_NONE), BIT(0) | BIT(1) },
	SYSTEM_TABLES,
};
