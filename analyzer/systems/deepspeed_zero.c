/* DeepSpeed's estimators of model states under ZeRO-2 and ZeRO-3, on GPU and host. */
#include "systems/deepspeed_zero.h"

#include "estimate/inputs.h"
#include "config/parameter_count.h"

#include <string.h>

#define SYMBOLS(X)                                                               \
	X(P, "total_params")                                                     \
	X(X, "largest_layer_params; 0 under ZeRO-2")                             \
	X(n, "num_gpus_per_node")                                                \
	X(m, "num_nodes")                                                        \
	X(N, "GPUs, n m")                                                        \
	X(whole, "1: ZeRO-2, every GPU has the 16-bit weights")                  \
	X(kept, "1: ZeRO-2 without offload, every GPU has the 16-bit gradients") \
	X(S, "bytes a parameter that are sharded: 16, 18, 2 or 0")               \
	X(S_p, "of these, 16-bit weights")                                       \
	X(S_g, "of these, fp32 gradients")                                       \
	X(F, "additional_buffer_factor, times F_d")                              \
	X(F_d, "denominator of F")

/* DeepSpeed's tool truncates the sharded bytes once, as a sum; here the states take the remainder
 * after weights and gradients. */
#define TERMS(TERM)                                                                             \
	TERM(weights, "parameters", "16-bit weights", "2 P (of 2 P or 4 P)",                    \
	     "document 002, \"GPU RAM\", ZeRO-2", 2 * P * whole)                                \
	TERM(gradients, "gradients", "16-bit gradients", "2 P (of 4 P)",                        \
	     "document 002, \"GPU RAM\", ZeRO-2", 2 * P * kept)                                 \
	TERM(gathered_weights, "parameters", "largest layer's weights", "2 X (of 4 X)",         \
	     "document 002, \"GPU RAM\", largest_layer_memory", 2 * X)                          \
	TERM(gathered_gradients, "gradients", "largest layer's gradients", "2 X (of 4 X)",      \
	     "document 002, \"GPU RAM\", largest_layer_memory", 2 * X)                          \
	TERM(sharded_weights, "parameters", "sharded weights", "S_p P/N (of S P/N)",            \
	     "document 002, \"GPU RAM\", ZeRO-3", S_p *P / N)                                   \
	TERM(sharded_gradients, "gradients", "sharded gradients, fp32", "S_g P/N (of S P/N)",   \
	     "document 002, \"GPU RAM\" and \"General RAM\"", S_g *P / N)                       \
	TERM(sharded_states, "optimizer_states", "sharded masters, momentum, variance",         \
	     "(S - S_p - S_g) P/N (of S P/N)", "document 002, \"GPU RAM\" and \"General RAM\"", \
	     S *P / N - S_p * P / N - S_g * P / N)

#include "estimate/formula.h"

#define NONE 0
#define CPU 1
static const char *const devices[] = { "none", "cpu" };

/* The rows of the document's tables, in their order. */
static const struct document_row {
	int stage, param, optimizer, zero_init;
} rows[] = {
	{ 2, -1, CPU, -1 },  { 2, -1, NONE, -1 }, { 3, CPU, CPU, 1 },   { 3, CPU, CPU, 0 },
	{ 3, NONE, CPU, 1 }, { 3, NONE, CPU, 0 }, { 3, NONE, NONE, 1 }, { 3, NONE, NONE, 0 },
};

static void set_row(struct dims *x, const struct document_row *row)
{
	int shards_states = row->optimizer == NONE;

	SYMBOL(x, whole) = row->stage == 2;
	SYMBOL(x, kept) = row->stage == 2 && shards_states;
	SYMBOL(x, S_p) = row->stage == 3 && row->param == NONE ? 2 : 0;
	SYMBOL(x, S_g) = shards_states ? 4 : 0;
	SYMBOL(x, S) = SYMBOL(x, S_p) + (shards_states ? 16 : 0);
}

/* Host bytes of a node: "General RAM". g = n/N = 1/m; truncated like the tool. */
static wide cpu_bytes(const struct dims *x, const struct document_row *row)
{
	wide n = SYMBOL(x, n), m = SYMBOL(x, m), F = SYMBOL(x, F), F_d = SYMBOL(x, F_d);
	wide P = SYMBOL(x, P), states = row->param == CPU ? 18 : 16;

	if (row->optimizer == NONE)
		return (row->zero_init == 1 ? SYMBOL(x, X) : P) * 4 * n * F / F_d;
	if (row->stage == 2)
		return P * largest(4 * n, 16) * F / F_d;
	if (row->zero_init == 1 || 4 * n * m < states)
		return P * states * F / (F_d * m);
	return P * 4 * n * F / F_d;
}

/* Parameters counted from the architecture, if the job does not give them. */
static wide count(struct inputs *in, enum config_field f)
{
	struct err why = { 0 };
	int64_t total, module, n;

	if (in->failed || config_count_parameters(in->c, &total, &module, &why) < 0)
		return input_required(in, f, MAX_PARAMETERS);
	n = f == CONFIG_total_params ? total : module;
	estimate_note(in->out, "%s is not given: %lld, counted from the architecture",
		      config_name(f), (long long)n);
	return n < MAX_PARAMETERS ? n : MAX_PARAMETERS;
}

static void read_sizes(struct inputs *in, struct dims *x, int stage)
{
	if (GIVEN(in->c, total_params) || !GIVEN(in->c, num_parameters))
		SYMBOL(x, P) = GIVEN(in->c, total_params)
				       ? input_or(in, CONFIG_total_params, 1, MAX_PARAMETERS)
				       : count(in, CONFIG_total_params);
	else
		SYMBOL(x, P) = input_or(in, CONFIG_num_parameters, 1, MAX_PARAMETERS);
	if (stage == 3)
		SYMBOL(x, X) =
			GIVEN(in->c, largest_layer_params)
				? input_or(in, CONFIG_largest_layer_params, 1, MAX_PARAMETERS)
				: count(in, CONFIG_largest_layer_params);
	SYMBOL(x, n) = input_or(in, CONFIG_num_gpus_per_node,
				input_or(in, CONFIG_data_parallel_size, 1, MAX_RANKS), MAX_RANKS);
	SYMBOL(x, m) = input_or(in, CONFIG_num_nodes, 1, MAX_RANKS);
	SYMBOL(x, N) = SYMBOL(x, n) * SYMBOL(x, m);
	input_ratio(in, CONFIG_additional_buffer_factor, 1.5, 0, 1000000, &SYMBOL(x, F),
		    &SYMBOL(x, F_d));
}

static int read_stage(struct inputs *in)
{
	int stage = input_zero_stage(in, -1);

	if (stage == -1)
		return (int)input_required(in, CONFIG_zero_stage, 3);
	if (stage < 2)
		input_reject(in,
			     GIVEN(in->c, zero_stage) ? CONFIG_zero_stage
						      : CONFIG_use_distributed_optimizer,
			     "2 or 3: the document has formulas for ZeRO-2 and ZeRO-3 alone");
	return stage;
}

/* The row of the document's table for the job's options. */
static struct document_row read_row(struct inputs *in, int stage)
{
	struct document_row row = { .stage = stage, .param = -1, .zero_init = -1 };

	row.optimizer = input_word(in, CONFIG_offload_optimizer, NONE, "none|cpu");
	if (stage != 3) {
		if (input_word(in, CONFIG_offload_param, NONE, "none|cpu") != NONE)
			input_reject(in, CONFIG_offload_param,
				     "none under ZeRO-2: the weights are not sharded");
		return row;
	}
	row.param = input_word(in, CONFIG_offload_param, NONE, "none|cpu");
	row.zero_init = input_flag(in, CONFIG_zero_init, 1);
	if (row.param == CPU && row.optimizer == NONE)
		input_reject(
			in, CONFIG_offload_param,
			"none, or offload_optimizer cpu as well: the document has no row for weights alone");
	return row;
}

static void note_size(struct inputs *in, enum config_field f)
{
	wide size = input_or(in, f, 1, MAX_RANKS);

	if (size > 1)
		estimate_note(in->out,
			      "%s is %lld: the document shards over data parallelism alone",
			      config_name(f), (long long)size);
}

static int read_config(const struct config *c, struct estimate *out, struct err *e)
{
	struct inputs in = { .c = c, .out = out, .e = e };
	int stage = read_stage(&in);
	struct document_row row = read_row(&in, stage);
	enum precision precision;

	read_sizes(&in, &out->dims, stage);
	precision = input_precision(&in);
	input_reject_other_optimizers(&in);
	if (in.failed)
		return -1;
	set_row(&out->dims, &row);
	if (precision != PRECISION_FP16_MIXED && precision != PRECISION_BF16_MIXED)
		estimate_note(out,
			      "precision is %s: the document has 16-bit weights and fp32 states",
			      c->precision);
	note_size(&in, CONFIG_tensor_model_parallel_size);
	note_size(&in, CONFIG_pipeline_model_parallel_size);
	note_size(&in, CONFIG_context_parallel_size);
	return 0;
}

static void add_pinned(const struct config *c, struct estimate *out, const struct document_row *row)
{
	struct inputs in = { .c = c, .out = out };
	wide P = SYMBOL(&out->dims, P);
	wide steps = input_or(&in, CONFIG_gradient_accumulation_steps,
			      VALUE_OR(c, num_microbatches, 1), MAX_BATCH);

	if (row->stage == 3 && row->param == CPU)
		estimate_add_result(out, "pinned_cpu_bytes", 6 * P + (steps > 1 ? 2 * P : 0));
	else if (row->stage == 3 && row->optimizer == CPU)
		estimate_add_result(out, "pinned_cpu_bytes", 4 * P);
}

static void add_activations(const struct config *c, struct estimate *out)
{
	struct inputs in = { .c = c, .out = out };
	wide s, b, h, a;

	if (!GIVEN(c, seq_length) || !GIVEN(c, micro_batch_size) || !GIVEN(c, hidden_size) ||
	    !GIVEN(c, num_attention_heads))
		return;
	in.e = &(struct err){ 0 };
	s = input_or(&in, CONFIG_seq_length, 1, MAX_TOKENS);
	b = input_or(&in, CONFIG_micro_batch_size, 1, MAX_BATCH);
	h = input_or(&in, CONFIG_hidden_size, 1, MAX_WIDTH);
	a = input_or(&in, CONFIG_num_attention_heads, 1, MAX_HEADS);
	if (!in.failed)
		estimate_add_result(out, "activation_elements_per_layer",
				    (2 * s * a + 16 * h) * s * b);
}

static void add_results(const struct config *c, struct estimate *out)
{
	struct inputs in = { .c = c, .out = out };
	int stage = SYMBOL(&out->dims, whole) ? 2 : 3;
	struct document_row chosen = read_row(&in, stage);
	struct dims x = out->dims;

	estimate_add_result(out, "cpu_bytes", cpu_bytes(&x, &chosen));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct document_row *row = &rows[i];

		if (row->stage != stage)
			continue;
		set_row(&x, row);
		out->rows[out->row_count++] = (struct option_row){
			.offload_param = row->param < 0 ? NULL : devices[row->param],
			.offload_optimizer = devices[row->optimizer],
			.zero_init = row->zero_init,
			.cpu = cpu_bytes(&x, row),
			.gpu = estimate_sum(out->system, &x),
		};
	}
	add_pinned(c, out, &chosen);
	add_activations(c, out);
}

const struct system deepspeed_zero = {
	.name = "deepspeed-zero",
	.title = "model states under ZeRO-2 and ZeRO-3",
	.source = "document 002, DeepSpeed, \"Memory Requirements\"",
	.leaves_out =
		"activations, buckets, temporary buffers, fragmentation, CUDA context, NCCL; stages 0 and 1; Adam only",
	.space = { BIT(DIM_DP), BIT(RECOMPUTE_NONE), BIT(2) | BIT(3) },
	SYSTEM_TABLES,
};
