/* Totals from a parameter count, divided as one of thirteen printed strategies says.
 */
#include "systems/training_memory_blog.h"

#include "estimate/inputs.h"
#include "config/parameter_count.h"

#include <string.h>

#define SYMBOLS(X)                                                                    \
	X(theta, "parameters of the full model")                                      \
	X(L, "layers")                                                                \
	X(h, "hidden size")                                                           \
	X(a, "attention heads")                                                       \
	X(s, "sequence length")                                                       \
	X(b, "batch of a data-parallel rank: all its micro-batches")                  \
	X(k, "bytes of an element: k, or k_l in mixed precision")                     \
	X(c_o, "optimizer, bytes a parameter: 2 k, or 3 k_h in mixed precision")      \
	X(c_g, "gradients, bytes a parameter: k, k_l, or 4 with fp32 accumulation")   \
	X(KVH, "key/value heads")                                                     \
	X(TP, "tensor-parallel size")                                                 \
	X(PP, "pipeline-parallel size")                                               \
	X(CP, "context-parallel size")                                                \
	X(SP, "sequence-parallel size")                                               \
	X(DP, "data-parallel size")                                                   \
	X(MB, "micro-batches of a data-parallel rank")                                \
	X(D_o, "what the strategy divides M_o by")                                    \
	X(D_g, "what the strategy divides M_g by")                                    \
	X(D_m, "what the strategy divides M_m by")                                    \
	X(D_a1, "what the strategy divides M_a1 by")                                  \
	X(D_a2, "what the strategy divides M_a2 by")                                  \
	X(AC, "activation checkpointing: all activations over kept ones, times AC_d") \
	X(AC_d, "denominator of AC")                                                  \
	X(A, "a, or 1 where no term divides by a")                                    \
	X(M_QKV, "queries, keys and values of a layer, bytes a token, times A")       \
	X(e, "M_a2, bytes for each b s h of a layer")                                 \
	X(w, "M_a2, bytes for each b a s^2 of a layer")

/* A layer, times A / (b s): 16 k h + 2 h + 2 k a s + a s, of which 3 k h are Q, K and V. */
#define LAYER ((13 * k + 2) * h * A + M_QKV + (2 * k + 1) * a * s * A)
#define LAYER_A2 ((e * h + w * a * s) * A)

#define TERMS(TERM)                                                                                \
	TERM(model, "parameters", "model, M_m", "M_m = k theta, divided by D_m",                   \
	     "document 000, \"M_m Model's Memory\"", divide(k *theta, D_m))                        \
	TERM(optimizer, "optimizer_states", "optimizer, M_o", "M_o = c_o theta, divided by D_o",   \
	     "document 000, \"M_o Optimizer's Memory\"", divide(c_o *theta, D_o))                  \
	TERM(gradients, "gradients", "gradients, M_g", "M_g <= c_g theta, divided by D_g",         \
	     "document 000, \"M_g Gradients' Memory\"", divide(c_g *theta, D_g))                   \
	TERM(activations_a1, "activations", "attention and feed-forward, M_a1",                    \
	     "M_a1 = L (16 k b s h + 2 b s h + 2 k b a s^2 + b a s^2) - M_a2, divided by D_a1 AC", \
	     "document 000, \"Total activations\" and \"Tensor Parallelism\"",                     \
	     divide(L *b *s *(LAYER - LAYER_A2) * AC_d, A * D_a1 * AC))                            \
	TERM(activations_a2, "activations", "layer norm and dropout, M_a2",                        \
	     "M_a2 = L (e b s h + w b a s^2), divided by D_a2 AC",                                 \
	     "document 000, \"Notations\" and \"Tensor Parallelism\" (in words)",                  \
	     divide(L *b *s *LAYER_A2 *AC_d, A *D_a2 *AC))

#include "estimate/formula.h"

#define PLAIN 1
/* clang-format off */
/* STRATEGY(name, formula as printed, divisors of M_o, M_g, M_m, M_a1, M_a2) */
#define STRATEGIES(STRATEGY) \
	STRATEGY("single", "M_m + M_o + M_g + M_a", \
		 PLAIN, PLAIN, PLAIN, PLAIN, PLAIN) \
	STRATEGY("dp", "M_o + M_g + M_m + M_a", \
		 PLAIN, PLAIN, PLAIN, PLAIN, PLAIN) \
	STRATEGY("zero1", "M_o/DP + M_g + M_m + M_a", \
		 DP, PLAIN, PLAIN, PLAIN, PLAIN) \
	STRATEGY("zero2", "(M_o + M_g)/DP + M_m + M_a", \
		 DP, DP, PLAIN, PLAIN, PLAIN) \
	STRATEGY("zero3", "(M_o + M_g + M_m)/DP + M_a", \
		 DP, DP, DP, PLAIN, PLAIN) \
	STRATEGY("tp", "(M_o + M_g + M_m + M_a1)/TP + M_a2", \
		 TP, TP, TP, TP, PLAIN) \
	STRATEGY("tp+sp", "(M_o + M_g + M_m + M_a1)/TP + M_a2/SP", \
		 TP, TP, TP, TP, SP) \
	STRATEGY("pp", "(M_o + M_g + M_m)/PP + M_a/(PP MB)", \
		 PP, PP, PP, PP * MB, PP * MB) \
	STRATEGY("tp+pp", "(M_o + M_g + M_m)/(TP PP) + M_a1/(TP PP MB) + M_a2/(PP MB)", \
		 TP * PP, TP * PP, TP * PP, TP * PP * MB, PP * MB) \
	STRATEGY("tp+pp+sp", "(M_o + M_g + M_m)/(TP PP) + M_a1/(TP PP MB) + M_a2/(PP MB SP)", \
		 TP * PP, TP * PP, TP * PP, TP * PP * MB, PP * MB * SP) \
	STRATEGY("tp+pp+cp", "(M_o + M_g + M_m)/(TP PP) + M_a1/(TP PP MB CP) + M_a2/(PP MB CP)", \
		 TP * PP, TP * PP, TP * PP, TP * PP * MB * CP, PP * MB * CP) \
	STRATEGY("zero1+tp+pp+cp", \
		 "M_o/(TP PP DP) + (M_g + M_m)/(TP PP) + M_a1/(TP PP MB CP) + M_a2/(PP MB CP)", \
		 TP * PP * DP, TP * PP, TP * PP, TP * PP * MB * CP, PP * MB * CP) \
	STRATEGY("zero2+tp+pp+cp", \
		 "(M_o + M_g)/(TP PP DP) + M_m/(TP PP) + M_a1/(TP PP MB CP) + M_a2/(PP MB CP)", \
		 TP * PP * DP, TP * PP * DP, TP * PP, TP * PP * MB * CP, PP * MB * CP)
/* clang-format on */

#define STRATEGY(name, ...) name,
static const char *const strategy_names[] = { STRATEGIES(STRATEGY) };
#undef STRATEGY
#define STRATEGY(name, printed, ...) printed,
static const char *const strategy_formulas[] = { STRATEGIES(STRATEGY) };
#undef STRATEGY
enum {
	SINGLE,
	DATA,
	ZERO1,
	ZERO2,
	ZERO3,
	TENSOR,
	TENSOR_SEQUENCE,
	PIPELINE,
	TENSOR_PIPELINE,
	TENSOR_PIPELINE_SEQUENCE,
	TENSOR_PIPELINE_CONTEXT,
	ZERO1_4D,
	ZERO2_4D,
	EVERY_SIZE,
};
_Static_assert(ARRAY_SIZE(strategy_names) == EVERY_SIZE, "a name for every row of STRATEGIES");

static void set_divisors(struct dims *x, int strategy, int zero, int split)
{
	wide TP = SYMBOL(x, TP), PP = SYMBOL(x, PP), CP = SYMBOL(x, CP), SP = SYMBOL(x, SP);
	wide DP = SYMBOL(x, DP), MB = SYMBOL(x, MB);
#define STRATEGY(name, printed, o, g, m, a1, a2) { o, g, m, a1, a2 },
	const wide rows[][5] = { STRATEGIES(STRATEGY) };
#undef STRATEGY
	wide kept = PP > 1 ? MB : 1;
	/* All printed rows in one expression: sizes that are not used are 1. */
	const wide every[] = { TP * PP * (zero >= 1 ? DP : 1), TP * PP * (zero >= 2 ? DP : 1),
			       TP * PP * (zero >= 3 ? DP : 1), TP * PP * kept * CP,
			       PP * kept * CP * SP };
	const wide *row = strategy == EVERY_SIZE ? every : rows[strategy];
	/* blog_batch = microbatch: b is one micro-batch even without a pipeline. */
	int has_batch = strategy == EVERY_SIZE ? PP > 1 : strategy >= PIPELINE;
	wide batch = split && !has_batch ? MB : 1;

	SYMBOL(x, D_o) = row[0];
	SYMBOL(x, D_g) = row[1];
	SYMBOL(x, D_m) = row[2];
	SYMBOL(x, D_a1) = row[3] * batch;
	SYMBOL(x, D_a2) = row[4] * batch;
}

/* The strategy of the document for these sizes. */
static int automatic(const struct dims *x, int zero)
{
	int tp = SYMBOL(x, TP) > 1, pp = SYMBOL(x, PP) > 1, cp = SYMBOL(x, CP) > 1;
	int sp = SYMBOL(x, SP) > 1, dp = SYMBOL(x, DP) > 1;

	if (!dp)
		zero = 0;
	if (cp && !pp)
		return EVERY_SIZE;
	if (zero && (tp || pp))
		return !pp || sp || zero == 3 ? EVERY_SIZE : zero == 1 ? ZERO1_4D : ZERO2_4D;
	if (cp)
		return sp ? EVERY_SIZE : TENSOR_PIPELINE_CONTEXT;
	if (pp)
		return !tp ? PIPELINE : sp ? TENSOR_PIPELINE_SEQUENCE : TENSOR_PIPELINE;
	if (tp)
		return sp ? TENSOR_SEQUENCE : TENSOR;
	return zero ? DATA + zero : dp ? DATA : SINGLE;
}

static int read_strategy(struct inputs *in, const struct dims *x, int zero)
{
	static const char words[] =
		"single|dp|zero1|zero2|zero3|tp|tp+sp|pp|tp+pp|tp+pp+sp|tp+pp+cp|"
		"zero1+tp+pp+cp|zero2+tp+pp+cp|auto|ddp|fsdp|4d|llama3";
	static const int aliases[] = { DATA, ZERO3, ZERO1_4D, ZERO2_4D };
	int word = input_word(in, CONFIG_strategy, EVERY_SIZE, words);

	if (word > EVERY_SIZE)
		return aliases[word - EVERY_SIZE - 1];
	return word == EVERY_SIZE ? automatic(x, zero) : word;
}

static wide read_parameters(struct inputs *in)
{
	int64_t counted, module;
	struct err why = { 0 };

	if (GIVEN(in->c, num_parameters))
		return input_or(in, CONFIG_num_parameters, 1, MAX_PARAMETERS);
	if (GIVEN(in->c, total_params))
		return input_or(in, CONFIG_total_params, 1, MAX_PARAMETERS);
	if (in->failed || config_count_parameters(in->c, &counted, &module, &why) < 0 ||
	    counted > MAX_PARAMETERS)
		return input_required(in, CONFIG_num_parameters, MAX_PARAMETERS);
	estimate_note(in->out, "num_parameters is not given: %lld, counted from the architecture",
		      (long long)counted);
	return counted;
}

static void read_precisions(struct inputs *in, struct dims *x)
{
	static const struct {
		int low, high;
	} widths[] = {
		[PRECISION_FP32] = { 4, 0 },          [PRECISION_FP16] = { 2, 0 },
		[PRECISION_BF16] = { 2, 0 },          [PRECISION_FP8] = { 1, 0 },
		[PRECISION_FP16_MIXED] = { 2, 4 },    [PRECISION_BF16_MIXED] = { 2, 4 },
		[PRECISION_FP8_MIXED] = { 2, 4 },     [PRECISION_FP16_AUTOCAST] = { 2, 4 },
		[PRECISION_BF16_AUTOCAST] = { 2, 4 },
	};
	enum precision precision = input_precision(in);
	wide k = input_or(in, CONFIG_bytes_low, widths[precision].low, 8);
	wide k_h = input_or(in, CONFIG_bytes_high, widths[precision].high, 8);

	SYMBOL(x, k) = k;
	SYMBOL(x, c_o) = k_h ? 3 * k_h : 2 * k;
	SYMBOL(x, c_g) =
		input_or(in, CONFIG_grad_bytes,
			 input_flag(in, CONFIG_accumulate_allreduce_grads_in_fp32, 0) ? 4 : k, 8);
	if (!in->failed && precision >= PRECISION_FP16_AUTOCAST)
		estimate_note(
			in->out,
			"precision is %s: the document knows no autocast, and counts it as mixed "
			"precision with 16-bit weights and a master copy",
			in->c->precision);
}

static void read_activations(struct inputs *in, struct dims *x)
{
	wide h = SYMBOL(x, h), a = SYMBOL(x, a), k = SYMBOL(x, k), KVH;

	KVH = SYMBOL(x, KVH) = input_or(in, CONFIG_num_query_groups, a, MAX_HEADS);
	SYMBOL(x, A) = a;
	switch (input_word(in, CONFIG_gqa_variant, 0, "none|printed|consistent")) {
	case 1:
		SYMBOL(x, M_QKV) = k * h * a + (k + 1) * KVH * h;
		break;
	case 2:
		SYMBOL(x, M_QKV) = k * h * a + 2 * k * KVH * h;
		break;
	default:
		SYMBOL(x, A) = 1;
		SYMBOL(x, M_QKV) = 3 * k * h;
		if (KVH != a)
			estimate_note(
				in->out,
				"grouped queries: the document's formula assumes as many key/value "
				"heads as heads (see gqa_variant)");
	}
	switch (input_word(in, CONFIG_a2_definition, 0,
			   "ln_dropout|ln_all_dropout|korthikanti|none")) {
	case 0:
		SYMBOL(x, e) = 2 * k + 2;
		break;
	case 1:
		SYMBOL(x, e) = 2 * k + 2;
		SYMBOL(x, w) = 1;
		break;
	case 2:
		SYMBOL(x, e) = 4 * k + 2;
		break;
	}
	input_ratio(in, CONFIG_activation_checkpoint_factor, 1, 1, 10000, &SYMBOL(x, AC),
		    &SYMBOL(x, AC_d));
}

static void read_sizes(struct inputs *in, struct dims *x)
{
	wide b, d;

	SYMBOL(x, L) = input_required(in, CONFIG_num_layers, MAX_LAYERS);
	SYMBOL(x, h) = input_required(in, CONFIG_hidden_size, MAX_WIDTH);
	SYMBOL(x, a) = input_required(in, CONFIG_num_attention_heads, MAX_HEADS);
	SYMBOL(x, s) = input_required(in, CONFIG_seq_length, MAX_TOKENS);
	b = input_required(in, CONFIG_micro_batch_size, MAX_BATCH);
	SYMBOL(x, TP) = input_or(in, CONFIG_tensor_model_parallel_size, 1, MAX_RANKS);
	SYMBOL(x, PP) = input_or(in, CONFIG_pipeline_model_parallel_size, 1, MAX_RANKS);
	SYMBOL(x, CP) = input_or(in, CONFIG_context_parallel_size, 1, MAX_RANKS);
	SYMBOL(x, DP) = d = input_or(in, CONFIG_data_parallel_size, 1, MAX_RANKS);
	SYMBOL(x, SP) = input_flag(in, CONFIG_sequence_parallel, 0) ? SYMBOL(x, TP) : 1;
	SYMBOL(x, MB) = input_microbatches(in, b, d);
	SYMBOL(x, b) = b * SYMBOL(x, MB);
	if (!in->failed && SYMBOL(x, b) > MAX_BATCH)
		input_reject(in, CONFIG_micro_batch_size,
			     "at most 1000000 sequences of a data-parallel rank and step");
	SYMBOL(x, theta) = read_parameters(in);
}

static void add_notes(struct inputs *in, const struct dims *x, int strategy)
{
	if (strategy == EVERY_SIZE) {
		in->out->beyond = "the document prints no formula for these sizes together";
		estimate_note(in->out, "%s: every one is applied as its rows do", in->out->beyond);
	}
	if (strategy < PIPELINE && SYMBOL(x, MB) > 1 && !GIVEN(in->c, blog_batch))
		estimate_note(in->out,
			      "without a pipeline the document keeps the activations of all %lld "
			      "micro-batches (see blog_batch)",
			      (long long)SYMBOL(x, MB));
	if (VALUE_OR(in->c, num_experts, 0) > 1)
		estimate_note(in->out,
			      "the activations of experts are not modelled by this document");
	if (GIVEN(in->c, attention) && strcmp(in->c->attention, "eager") &&
	    strcmp(in->c->attention, "unfused"))
		estimate_note(in->out,
			      "attention is %s: the document keeps the attention's weights",
			      in->c->attention);
	input_note_unmodelled(in);
}

static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	struct inputs in = { .c = c, .out = out, .e = e };
	struct dims *x = &out->dims;
	int zero = input_zero_stage(&in, 0), split, strategy;

	read_sizes(&in, x);
	read_precisions(&in, x);
	read_activations(&in, x);
	strategy = read_strategy(&in, x, zero);
	split = input_word(&in, CONFIG_blog_batch, 0, "per_dp|microbatch");
	input_reject_other_optimizers(&in);
	if (in.failed)
		return -1;
	if (!input_flag(&in, CONFIG_optimizer_on_this_gpu, 1))
		SYMBOL(x, c_o) = 0;
	set_divisors(x, strategy, zero, split);
	add_notes(&in, x, strategy);
	return 0;
}

static void add_parts(struct estimate *out, const struct dims *x)
{
	wide a1 = term_activations_a1(x), a2 = term_activations_a2(x);

	estimate_add_result(out, "M_m", term_model(x));
	estimate_add_result(out, "M_o", term_optimizer(x));
	estimate_add_result(out, "M_g", term_gradients(x));
	estimate_add_result(out, "M_a1", a1);
	estimate_add_result(out, "M_a2", a2);
	estimate_add_result(out, "M_a", a1 + a2);
}

static void add_results(const struct config *c, struct estimate *out)
{
	struct inputs in = { .c = c, .out = out };
	int zero = input_zero_stage(&in, 0);
	int split = input_word(&in, CONFIG_blog_batch, 0, "per_dp|microbatch");
	int chosen = read_strategy(&in, &out->dims, zero);
	struct dims x = out->dims;
	wide k_h = input_or(&in, CONFIG_bytes_high,
			    input_precision(&in) < PRECISION_FP16_MIXED ? 0 : 4, 8);

	estimate_add_word(out, "strategy",
			  chosen < EVERY_SIZE ? strategy_names[chosen] : "every-size");
	if (chosen < EVERY_SIZE)
		estimate_add_word(out, "strategy_formula", strategy_formulas[chosen]);
	for (int i = 0; i < EVERY_SIZE; i++) {
		set_divisors(&x, i, zero, split);
		out->strategies[out->strategy_count++] =
			(struct named_bytes){ strategy_names[i], estimate_sum(out->system, &x) };
	}
	set_divisors(&x, SINGLE, zero, split);
	add_parts(out, &x);
	if (chosen == SINGLE || chosen == DATA) {
		/* One of the data-parallel GPUs holds the optimizer, even if this one does not. */
		wide each = estimate_sum(out->system, &x) - term_optimizer(&x);

		SYMBOL(&x, c_o) = k_h ? 3 * k_h : 2 * SYMBOL(&x, k);
		estimate_add_result(out, "all_gpus_bytes",
				    term_optimizer(&x) + SYMBOL(&x, DP) * each);
	}
}

const struct system training_memory_blog = {
	.name = "training-memory-blog",
	.title = "totals divided by parallel sizes",
	.source = "document 000, a blog on the memory of training large models",
	.leaves_out =
		"logits and loss, temporary buffers, fragmentation, CUDA context, NCCL; parameters are given, not "
		"counted; Adam only",
	.space = { BIT(DIM_TP) | BIT(DIM_PP) | BIT(DIM_CP) | BIT(DIM_DP) | BIT(DIM_MBS),
		   BIT(RECOMPUTE_NONE), BIT(4) - 1 },
	SYSTEM_TABLES,
};
