/* Turns a candidate and the code signatures into values, each with its evidence. */
#include "infer/infer_values.h"

#include "attribution/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer_tokens.h"
#include "match/alternatives.h"
#include "match/match_blocks.h"
#include "readers/hf.h"

static void add_number(struct inferred_config *i, struct config *c, enum config_field f,
		       enum inferred_confidence confidence, int64_t value, const char *evidence)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	inferred_add(i, c, f, confidence, text, "%s", evidence);
}

static void add_flag(struct inferred_config *i, struct config *c, enum config_field f,
		     enum inferred_confidence confidence, int value, const char *evidence)
{
	inferred_add(i, c, f, confidence, value ? "true" : "false", "%s", evidence);
}

/* ---- code signatures ---- */

int has_signature(const struct infer_input *j, const char *key, const char *value)
{
	for (size_t m = 0; m < signature_count; m++)
		if (j->signatures >> m & 1 && !strcmp(signatures[m].key, key) &&
		    !strcmp(signatures[m].value, value))
			return 1;
	return 0;
}

/* The name of the model is a folder's. Beside Megatron-core, transformers makes no layers. */
static const char *value_of(const struct infer_input *j, size_t m, int megatron)
{
	if (strcmp(signatures[m].value, "*") != 0)
		return signatures[m].value;
	return megatron || !j->profile->model_type ? "" : j->profile->model_type;
}

/* The first row of a key counts. A row without a value only shows that there are several. */
static void add_signatures(struct inferred_config *i, struct config *c, const struct infer_input *j)
{
	int megatron = has_signature(j, "framework", "megatron-core");

	for (size_t m = 0; m < signature_count; m++) {
		int f = config_find(signatures[m].key);
		const char *value = value_of(j, m, megatron);

		/* Megatron's optimizer chooses by itself */
		if (f == CONFIG_optimizer_implementation && megatron)
			continue;
		if (j->signatures >> m & 1 && f >= 0 && *value)
			inferred_add(i, c, (enum config_field)f, INFERRED_EXACT, value,
				     "frames of %s, %s", signatures[m].function,
				     signatures[m].file);
	}
}

/* ---- a candidate as values ---- */

/* Are most of the layers' activations of 2 bytes an element? */
static int is_half(const struct infer_input *j, const struct candidate *t)
{
	uint64_t half = size_counts_find(&j->profile->forward, t->tokens * t->r.hidden * 2),
		 whole = size_counts_find(&j->profile->forward, t->tokens * t->r.hidden * 4);

	return half >= t->layers.count && half * 4 >= whole;
}

/* Were the weights allocated in 32 bits and converted to 16 afterwards? */
static int is_converted(const struct infer_input *j, const struct candidate *t)
{
	const struct parameter_sizes *m = &j->profile->parameters[SOURCE_APPLY];
	bytes largest = 0;
	size_t found = 0;

	for (size_t i = 0; i < t->layers.period; i++)
		if (t->layers.slot[i] > largest)
			largest = t->layers.slot[i];
	for (size_t i = 0; i < m->count; i++)
		found += size_fits(m->sizes[i], largest / 2);
	return t->r.width == 4 && t->layers.source == SOURCE_INIT && found >= t->layers.count;
}

static void add_precision(struct inferred_config *i, struct config *c, const struct infer_input *j,
			  const struct candidate *t)
{
	int own_master = has_signature(j, "framework", "megatron-core") ||
			 has_signature(j, "framework", "deepspeed");
	int narrow = t->r.width == 2 || is_converted(j, t);
	const char *kind = narrow          ? (own_master ? "-mixed" : "")
			   : is_half(j, t) ? (has_signature(j, "fsdp_version", "1") ||
							      has_signature(j, "fsdp_version", "2")
						      ? "-mixed"
						      : "-autocast")
					   : NULL;
	char value[32];

	if (!kind) {
		inferred_add(i, c, CONFIG_precision, INFERRED_EXACT, "fp32",
			     "weights and activations have 4 bytes an element");
		return;
	}
	snprintf(value, sizeof(value), "bf16%s", kind);
	inferred_add(i, c, CONFIG_precision, INFERRED_GUESS, value,
		     "weights of %d bytes, activations of %d; fp16 and bf16 have the same sizes",
		     narrow ? 2 : 4, 2);
}

/* If experts have blocks of their own, another small block may have been taken for the router. */
static enum inferred_confidence experts_sure(const struct layer_hypothesis *r)
{
	if (!r->apart)
		return INFERRED_EXACT;
	return r->no_router ? INFERRED_GUESS : INFERRED_LIKELY;
}

static const char *experts_from(const struct layer_hypothesis *r)
{
	return r->no_router ? "a rank's experts; any number of ranks may share them"
	       : r->experts > r->experts_here ? "experts of a rank beside the rows of the router"
					      : "rows of the router";
}

static void add_layout(struct inferred_config *i, struct config *c, const struct infer_input *j,
		       const struct candidate *t)
{
	int megatron = has_signature(j, "framework", "megatron-core");
	int64_t rest = j->world / t->r.tp, stages = 1;

	if (j->world <= 1)
		return;
	if (megatron) {
		add_number(i, c, CONFIG_tensor_model_parallel_size,
			   t->r.tp > 1 ? INFERRED_LIKELY : INFERRED_EXACT, t->r.tp,
			   "rows of the matrices beside the normalizations' width");
		if (has_signature(j, "pipeline_model_parallel_size", ""))
			stages = rest;
		add_number(i, c, CONFIG_pipeline_model_parallel_size,
			   stages > 3   ? INFERRED_GUESS
			   : stages > 1 ? INFERRED_LIKELY
					: INFERRED_EXACT,
			   stages,
			   stages > 1
				   ? "blocks are received from another stage; no data parallelism "
				     "beside it is assumed"
				   : "nothing is received from another stage");
		if (has_signature(j, "virtual_pipeline_model_parallel_size", ""))
			add_number(i, c, CONFIG_virtual_pipeline_model_parallel_size,
				   INFERRED_GUESS, 2,
				   "the schedule is interleaved: two chunks or more");
	}
	if (t->r.experts > t->r.experts_here)
		add_number(i, c, CONFIG_expert_model_parallel_size, experts_sure(&t->r),
			   t->r.experts / t->r.experts_here, experts_from(&t->r));
	add_number(i, c, CONFIG_world_size, INFERRED_EXACT, j->world, "the trace's header");
	if (!megatron &&
	    (has_signature(j, "fsdp_version", "1") || has_signature(j, "fsdp_version", "2")))
		add_flag(i, c, CONFIG_fsdp, INFERRED_EXACT, 1, "frames of torch.distributed.fsdp");
}

/* `next`: the gap of the best other choice. For experts that run one after the other the estimate
 * has one block for all, so that the activations show little. */
static enum inferred_confidence sure_of(const struct candidate *t, bytes next)
{
	if (t->r.apart)
		return INFERRED_GUESS;
	return next < 0 || next - t->gap >= t->notable ? INFERRED_LIKELY : INFERRED_GUESS;
}

/* Mixtral's configuration has one width, the experts'. Others have a second one for layers without
 * experts, and this job has no such layer. */
static void add_experts(struct inferred_config *i, struct config *c, const struct candidate *t)
{
	const struct layer_hypothesis *r = &t->r;
	enum config_field width =
		config_has(c, CONFIG_model_type) && !strcmp(c->model_type, "mixtral")
			? CONFIG_ffn_hidden_size
			: CONFIG_moe_ffn_hidden_size;
	char text[200];

	add_number(i, c, CONFIG_num_experts, experts_sure(r), r->experts, experts_from(r));
	snprintf(text, sizeof(text), "weights of %lld experts allow %lld to %lld rows",
		 (long long)r->experts_here, (long long)r->ffn_least, (long long)t->ffn_most);
	add_number(i, c, width, r->ffn_least == r->ffn ? INFERRED_EXACT : INFERRED_LIKELY, r->ffn,
		   text);
	add_number(i, c, CONFIG_moe_router_topk,
		   t->topk_is_clear && !r->apart ? INFERRED_LIKELY : INFERRED_GUESS, t->topk,
		   "leaves the smallest gap of 1 to 16, and the likest forward pass");
	if (r->shared) {
		add_number(i, c, CONFIG_moe_shared_expert_intermediate_size,
			   r->shared_least == r->shared ? INFERRED_EXACT : INFERRED_LIKELY,
			   r->shared, "a shared expert's weights and activations");
	}
	if (width != CONFIG_ffn_hidden_size)
		inferred_undetermined(i, CONFIG_ffn_hidden_size, "no layer is without experts");
}

static void add_sizes(struct inferred_config *i, struct config *c, const struct candidate *t)
{
	const struct layer_hypothesis *r = &t->r;
	int64_t head = r->hidden / t->heads,
		vocab = usual_vocabulary(r->vocab_least, r->vocab_most);
	int64_t stages = config_has(c, CONFIG_pipeline_model_parallel_size)
				 ? c->pipeline_model_parallel_size
				 : 1;
	char text[200];

	snprintf(text, sizeof(text), "%zu times the same %zu blocks%s", t->layers.count,
		 t->layers.period, stages > 1 ? " on this stage, and as many on the others" : "");
	add_number(i, c, CONFIG_num_layers, stages > 1 ? INFERRED_LIKELY : INFERRED_EXACT,
		   (int64_t)t->layers.count * stages, text);
	add_number(i, c, CONFIG_hidden_size, INFERRED_EXACT, r->hidden,
		   "the normalizations' vectors, and the columns of all matrices");
	if (r->experts) {
		add_experts(i, c, t);
	} else {
		snprintf(text, sizeof(text),
			 "%s feed-forward matrices of so many rows in each layer",
			 r->gated ? "gated" : "two");
		add_number(i, c, CONFIG_ffn_hidden_size,
			   r->ffn_least == r->ffn ? INFERRED_EXACT : INFERRED_LIKELY, r->ffn, text);
	}
	add_number(i, c, CONFIG_num_attention_heads, sure_of(t, t->heads_next), t->heads,
		   "leaves the smallest gap of the widths of a head");
	snprintf(text, sizeof(text), "keys have %lld rows of %lld a head", (long long)r->kv,
		 (long long)head);
	add_number(i, c, CONFIG_num_query_groups, sure_of(t, t->heads_next), r->kv / head, text);
	if (r->vocab_most > 0) {
		snprintf(text, sizeof(text), "embedding and logits allow %lld to %lld rows",
			 (long long)r->vocab_least, (long long)r->vocab_most);
		add_number(i, c, CONFIG_vocab_size,
			   r->vocab_least == r->vocab_most ? INFERRED_EXACT
			   : vocab == r->vocab_most        ? INFERRED_LIKELY
							   : INFERRED_GUESS,
			   vocab, text);
	}
	/* a tied weight that was allocated twice and moved is live once */
	if (r->vocab_most > 0 && stages == 1 &&
	    (r->heads_seen == 1 || t->layers.source != SOURCE_INIT))
		add_flag(i, c, CONFIG_untie_embeddings_and_output_weights, INFERRED_LIKELY,
			 r->heads_seen > 1, "blocks of the vocabulary's size");
	if (r->positions_most > 0) {
		int fits = t->seq >= r->positions_least && t->seq <= r->positions_most;

		add_number(i, c, CONFIG_max_position_embeddings, INFERRED_LIKELY,
			   fits ? t->seq : round_number(r->positions_least, r->positions_most),
			   "a second embedding of about so many rows");
		inferred_add(i, c, CONFIG_position_embedding_type, INFERRED_LIKELY,
			     "learned_absolute", "a second embedding");
	}
}

static void add_architecture(struct inferred_config *i, struct config *c, const struct candidate *t)
{
	const struct layer_hypothesis *r = &t->r;
	int vectors = r->vectors - 2 * r->linear_bias;

	inferred_add(i, c, CONFIG_framework, INFERRED_GUESS, "nanogpt",
		     "no frames of a framework that is known");
	inferred_add(i, c, CONFIG_arch, INFERRED_LIKELY,
		     r->positions_most || !r->gated ? "gpt" : "llama", "%s",
		     r->gated ? "gated" : "not gated");
	add_flag(i, c, CONFIG_swiglu, INFERRED_EXACT, r->gated,
		 "matrices of the feed-forward network in a layer");
	add_flag(i, c, CONFIG_add_bias_linear, INFERRED_LIKELY, r->linear_bias,
		 r->linear_bias ? "vectors of the feed-forward network's width"
				: "no such vectors");
	/* two normalizations a layer; two of the linear biases have the same width */
	if (config_has(c, CONFIG_normalization) && !strcmp(c->normalization, "LayerNorm") &&
	    !r->qkv_bias && (vectors == 2 || vectors == 4))
		add_flag(i, c, CONFIG_norm_bias, INFERRED_LIKELY, vectors == 4,
			 "vectors of hidden_size elements in a layer");
	if (r->qkv_bias)
		add_flag(i, c, CONFIG_add_qkv_bias, INFERRED_LIKELY, 1,
			 "vectors of the queries', keys' and values' widths");
}

/* Bucket sizes are usually decimal numbers. */
static int64_t round_decimal(int64_t least, int64_t most)
{
	for (int64_t by = INT64_C(1000000000000); by > 1; by /= 10)
		if (most / by * by >= least && most / by * by > 0)
			return most / by * by;
	return most;
}

static void add_bucket(struct inferred_config *i, struct config *c, const struct infer_input *j)
{
	bytes each = strcmp(c->precision, "fp32") ? 2 : 4, size = j->profile->bucket;

	add_number(i, c, CONFIG_reduce_bucket_size, INFERRED_LIKELY,
		   round_decimal((size - MAX_UNSPLIT_TAIL) / each, size / each),
		   "DeepSpeed's buffer for gradients");
	/* of stage 3 both are made at one stack */
	if (!has_signature(j, "zero_stage", "3"))
		add_flag(i, c, CONFIG_overlap_comm, INFERRED_LIKELY, j->profile->bucket_stacks > 1,
			 "one such buffer, or two in turn");
}

static void add_batch(struct inferred_config *i, struct config *c, const struct infer_input *j,
		      const struct candidate *t)
{
	int64_t chunks = config_has(c, CONFIG_virtual_pipeline_model_parallel_size)
				 ? c->virtual_pipeline_model_parallel_size
				 : 1;
	unsigned passes = 1;
	char text[200];

	snprintf(
		text, sizeof(text),
		"%lld tokens a micro-batch (blocks of %lld elements a layer); of its divisors it leaves "
		"the smallest gap",
		(long long)t->tokens, (long long)t->tokens * t->r.hidden);
	add_number(i, c, CONFIG_seq_length, sure_of(t, t->seq_next), t->seq, text);
	add_number(i, c, CONFIG_micro_batch_size, sure_of(t, t->seq_next), t->tokens / t->seq,
		   text);
	for (size_t k = 0; k < j->w[0].rank->step_count; k++)
		if (j->w[0].rank->steps[k].backwards > passes)
			passes = j->w[0].rank->steps[k].backwards;
	if (passes > chunks)
		add_number(i, c, CONFIG_num_microbatches, INFERRED_LIKELY, passes / chunks,
			   "backward passes of a step, through each model chunk");
	if (j->profile->bucket)
		add_bucket(i, c, j);
}

void infer_type_defaults(struct inferred_config *i, struct config *c, int searched)
{
	if (!config_has(c, CONFIG_model_type))
		return;
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		const char *value = hf_default(c->model_type, (enum config_field)f);

		if (value && (searched || !alternatives_are_searched((enum config_field)f)))
			inferred_add(i, c, (enum config_field)f, INFERRED_GUESS, value,
				     "transformers' default for %s", c->model_type);
	}
}

void infer_values(struct inferred_config *i, struct config *c, const struct infer_input *j,
		  const struct candidate *t)
{
	add_signatures(i, c, j);
	add_architecture(i, c, t);
	add_layout(i, c, j, t);
	add_precision(i, c, j, t);
	add_sizes(i, c, t);
	add_batch(i, c, j, t);
	infer_type_defaults(i, c, 0);
}
