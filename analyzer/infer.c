#include "infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "match_blocks.h"

#define MOST_BATCH 4096

static void add_number(struct inference *i, struct config *c, enum config_field f,
		       enum sureness sure, int64_t value, const char *evidence)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	inferred_add(i, c, f, sure, text, "%s", evidence);
}

static void add_flag(struct inference *i, struct config *c, enum config_field f, enum sureness sure,
		     int value, const char *evidence)
{
	inferred_add(i, c, f, sure, value ? "true" : "false", "%s", evidence);
}

/* ---- what code ran ---- */

struct job_seen {
	const struct witness *w;
	size_t count;
	uint64_t marks;
	int64_t world;
	const struct census *census; /* of the first rank */
	struct witness ends[2];      /* whose peaks the readings are held against */
	size_t end_count;
};

static int is_marked(const struct job_seen *j, const char *key, const char *value)
{
	for (size_t m = 0; m < mark_count; m++)
		if (j->marks >> m & 1 && !strcmp(marks[m].key, key) &&
		    !strcmp(marks[m].value, value))
			return 1;
	return 0;
}

/* The first row of a key counts. A row without a value says only that there are several. */
static void add_marks(struct inference *i, struct config *c, const struct job_seen *j)
{
	int megatron = is_marked(j, "framework", "megatron-core");

	for (size_t m = 0; m < mark_count; m++) {
		int f = config_find(marks[m].key);

		/* Megatron's optimizer chooses by itself */
		if (f == CONFIG_optimizer_implementation && megatron)
			continue;
		if (j->marks >> m & 1 && f >= 0 && *marks[m].value)
			inferred_add(i, c, (enum config_field)f, SURE_EXACT, marks[m].value,
				     "frames of %s, %s", marks[m].function, marks[m].file);
	}
}

static void look(struct job_seen *j, const struct witness *w, size_t count)
{
	*j = (struct job_seen){ .w = w, .count = count, .world = 1 };
	for (size_t k = 0; k < count; k++) {
		j->marks |= w[k].census->marks;
		if (w[k].rank->world_size > j->world)
			j->world = w[k].rank->world_size;
	}
	j->census = w[0].census;
	j->ends[j->end_count++] = w[0];
	if (count > 1 && is_marked(j, "pipeline_model_parallel_size", ""))
		j->ends[j->end_count++] = w[count - 1];
}

/* ---- one reading of the sizes, as a configuration ---- */

struct trial {
	struct layers layers;
	struct reading_of_layer r;
	int64_t tokens, seq, heads;
	bytes gap;
};

/* Are most of the layers' activations of 2 bytes an element? */
static int is_half(const struct job_seen *j, const struct trial *t)
{
	uint64_t half = census_forward(j->census, t->tokens * t->r.hidden * 2),
		 whole = census_forward(j->census, t->tokens * t->r.hidden * 4);

	return half >= t->layers.count && half * 4 >= whole;
}

/* Were the weights converted to 16 bits after they were made? */
static int is_converted(const struct job_seen *j, const struct trial *t)
{
	const struct made *m = &j->census->made[MAKER_APPLY];
	bytes largest = 0;
	size_t found = 0;

	for (size_t i = 0; i < t->layers.period; i++)
		if (t->layers.slot[i] > largest)
			largest = t->layers.slot[i];
	for (size_t i = 0; i < m->count; i++)
		found += size_fits(m->sizes[i], largest / 2);
	return t->r.width == 4 && t->layers.maker == MAKER_INIT && found >= t->layers.count;
}

static void add_precision(struct inference *i, struct config *c, const struct job_seen *j,
			  const struct trial *t)
{
	int own_master = is_marked(j, "framework", "megatron-core") ||
			 is_marked(j, "framework", "deepspeed");
	int narrow = t->r.width == 2 || is_converted(j, t);
	const char *kind = narrow          ? (own_master ? "-mixed" : "")
			   : is_half(j, t) ? (is_marked(j, "fsdp_version", "1") ||
							      is_marked(j, "fsdp_version", "2")
						      ? "-mixed"
						      : "-autocast")
					   : NULL;
	char value[32];

	if (!kind) {
		inferred_add(i, c, CONFIG_precision, SURE_EXACT, "fp32",
			     "weights and activations have 4 bytes an element");
		return;
	}
	snprintf(value, sizeof(value), "bf16%s", kind);
	inferred_add(i, c, CONFIG_precision, SURE_GUESS, value,
		     "weights of %d bytes, activations of %d; fp16 and bf16 have the same sizes",
		     narrow ? 2 : 4, 2);
}

static void add_layout(struct inference *i, struct config *c, const struct job_seen *j,
		       const struct trial *t)
{
	int megatron = is_marked(j, "framework", "megatron-core");
	int64_t rest = j->world / t->r.tp, stages = 1;

	if (j->world <= 1)
		return;
	if (megatron) {
		add_number(i, c, CONFIG_tensor_model_parallel_size,
			   t->r.tp > 1 ? SURE_LIKELY : SURE_EXACT, t->r.tp,
			   "rows of the matrices beside the normalizations' width");
		if (is_marked(j, "pipeline_model_parallel_size", ""))
			stages = rest;
		add_number(i, c, CONFIG_pipeline_model_parallel_size,
			   stages > 3   ? SURE_GUESS
			   : stages > 1 ? SURE_LIKELY
					: SURE_EXACT,
			   stages,
			   stages > 1
				   ? "blocks are received from another stage; no data parallelism "
				     "beside it is assumed"
				   : "nothing is received from another stage");
		if (is_marked(j, "virtual_pipeline_model_parallel_size", ""))
			add_number(i, c, CONFIG_virtual_pipeline_model_parallel_size, SURE_GUESS, 2,
				   "the schedule is interleaved: two chunks or more");
	}
	add_number(i, c, CONFIG_world_size, SURE_EXACT, j->world, "the trace's header");
	if (!megatron && (is_marked(j, "fsdp_version", "1") || is_marked(j, "fsdp_version", "2")))
		add_flag(i, c, CONFIG_fsdp, SURE_EXACT, 1, "frames of torch.distributed.fsdp");
}

static void add_sizes(struct inference *i, struct config *c, const struct trial *t)
{
	const struct reading_of_layer *r = &t->r;
	int64_t head = r->hidden / t->heads,
		vocab = usual_vocabulary(r->vocab_least, r->vocab_most);
	int64_t stages = config_has(c, CONFIG_pipeline_model_parallel_size)
				 ? c->pipeline_model_parallel_size
				 : 1;
	char text[200];

	snprintf(text, sizeof(text), "%zu times the same %zu blocks%s", t->layers.count,
		 t->layers.period, stages > 1 ? " on this stage, and as many on the others" : "");
	add_number(i, c, CONFIG_num_layers, stages > 1 ? SURE_LIKELY : SURE_EXACT,
		   (int64_t)t->layers.count * stages, text);
	add_number(i, c, CONFIG_hidden_size, SURE_EXACT, r->hidden,
		   "the normalizations' vectors, and the columns of all matrices");
	snprintf(text, sizeof(text), "%s feed-forward matrices of so many rows in each layer",
		 r->gated ? "gated" : "two");
	add_number(i, c, CONFIG_ffn_hidden_size, r->ffn_least == r->ffn ? SURE_EXACT : SURE_LIKELY,
		   r->ffn, text);
	add_number(i, c, CONFIG_num_attention_heads, SURE_LIKELY, t->heads,
		   "leaves the smallest gap of the widths of a head");
	snprintf(text, sizeof(text), "keys have %lld rows of %lld a head", (long long)r->kv,
		 (long long)head);
	add_number(i, c, CONFIG_num_query_groups, SURE_LIKELY, r->kv / head, text);
	if (r->vocab_most > 0) {
		snprintf(text, sizeof(text), "embedding and logits allow %lld to %lld rows",
			 (long long)r->vocab_least, (long long)r->vocab_most);
		add_number(i, c, CONFIG_vocab_size,
			   r->vocab_least == r->vocab_most ? SURE_EXACT
			   : vocab == r->vocab_most        ? SURE_LIKELY
							   : SURE_GUESS,
			   vocab, text);
	}
	if (r->positions_most > 0) {
		int fits = t->seq >= r->positions_least && t->seq <= r->positions_most;

		add_number(i, c, CONFIG_max_position_embeddings, SURE_LIKELY,
			   fits ? t->seq : round_number(r->positions_least, r->positions_most),
			   "a second embedding of about so many rows");
		inferred_add(i, c, CONFIG_position_embedding_type, SURE_LIKELY, "learned_absolute",
			     "a second embedding");
	}
}

static void add_architecture(struct inference *i, struct config *c, const struct trial *t)
{
	const struct reading_of_layer *r = &t->r;

	inferred_add(i, c, CONFIG_framework, SURE_GUESS, "nanogpt",
		     "no frames of a framework that is known");
	inferred_add(i, c, CONFIG_arch, SURE_LIKELY,
		     r->positions_most || !r->gated ? "gpt" : "llama", "%s",
		     r->gated ? "gated" : "not gated");
	add_flag(i, c, CONFIG_swiglu, SURE_EXACT, r->gated,
		 "matrices of the feed-forward network in a layer");
	add_flag(i, c, CONFIG_add_bias_linear, SURE_LIKELY, r->linear_bias,
		 r->linear_bias ? "vectors of the feed-forward network's width"
				: "no such vectors");
	if (r->qkv_bias)
		add_flag(i, c, CONFIG_add_qkv_bias, SURE_LIKELY, 1,
			 "vectors of the queries', keys' and values' widths");
}

/* People write bucket sizes in decimal. */
static int64_t round_decimal(int64_t least, int64_t most)
{
	for (int64_t by = INT64_C(1000000000000); by > 1; by /= 10)
		if (most / by * by >= least && most / by * by > 0)
			return most / by * by;
	return most;
}

static void add_batch(struct inference *i, struct config *c, const struct job_seen *j,
		      const struct trial *t)
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
		(long long)t->tokens, (long long)(t->tokens * t->r.hidden));
	add_number(i, c, CONFIG_seq_length, SURE_LIKELY, t->seq, text);
	add_number(i, c, CONFIG_micro_batch_size, SURE_LIKELY, t->tokens / t->seq, text);
	for (size_t k = 0; k < j->w[0].rank->step_count; k++)
		if (j->w[0].rank->steps[k].backwards > passes)
			passes = j->w[0].rank->steps[k].backwards;
	if (passes > chunks)
		add_number(i, c, CONFIG_num_microbatches, SURE_LIKELY, passes / chunks,
			   "backward passes of a step, through each model chunk");
	if (j->census->bucket)
		add_number(
			i, c, CONFIG_reduce_bucket_size, SURE_LIKELY,
			round_decimal((j->census->bucket - MOST_TAIL) / 2, j->census->bucket / 2),
			"DeepSpeed's buffer for gradients of 2 bytes");
	if (j->census->bucket)
		add_flag(i, c, CONFIG_overlap_comm, SURE_LIKELY, j->census->bucket_places > 1,
			 "one such buffer, or two in turn");
}

static void add_all(struct inference *i, struct config *c, const struct job_seen *j,
		    const struct trial *t)
{
	add_marks(i, c, j);
	add_architecture(i, c, t);
	add_layout(i, c, j, t);
	add_precision(i, c, j, t);
	add_sizes(i, c, t);
	add_batch(i, c, j, t);
}

/* ---- which of the readings ---- */

static bytes try_one(const struct config *known, const struct job_seen *j, const struct trial *t,
		     const char *attention)
{
	struct inference i = { 0 };
	struct err e = { 0 };
	struct config c;
	bytes gap = -1;

	config_init(&c);
	config_copy(&c, known);
	add_all(&i, &c, j, t);
	inferred_add(&i, &c, CONFIG_attention, SURE_GUESS, attention, "tried");
	if (is_marked(j, "framework", "deepspeed"))
		inferred_add(&i, &c, CONFIG_zero_stage, SURE_GUESS, "2", "tried");
	if (!config_derive(&c, &e))
		gap = infer_gap(&c, j->ends, j->end_count);
	config_release(&c);
	inference_release(&i);
	return gap;
}

static void keep_better(struct trial *best, struct trial *t, const struct config *known,
			const struct job_seen *j)
{
	static const char *const kinds[] = { "sdpa", "eager" };
	int told = is_marked(j, "attention", "sdpa") || is_marked(j, "attention", "eager") ||
		   is_marked(j, "attention", "flash") || config_has(known, CONFIG_attention);

	for (size_t k = 0; k < (told ? 1 : ARRAY_SIZE(kinds)); k++) {
		t->gap = try_one(known, j, t, kinds[k]);
		if (t->gap >= 0 && (best->gap < 0 || t->gap < best->gap))
			*best = *t;
	}
}

/* The sequence's length and the heads: divisors of the tokens, and usual widths of a head. */
static void try_splits(struct trial *best, struct trial t, const struct config *known,
		       const struct job_seen *j)
{
	static const int64_t widths[] = { 64, 128, 96, 80, 256, 32, 192, 160, 112, 48, 16 };
	int64_t most =
		t.r.positions_most && t.r.positions_most < t.tokens ? t.r.positions_most : t.tokens;

	for (size_t k = 0; k < ARRAY_SIZE(widths); k++) {
		if (t.r.hidden % widths[k] || t.r.kv % widths[k])
			continue;
		t.heads = t.r.hidden / widths[k];
		for (t.seq = most; t.seq >= 8 && t.tokens / t.seq <= MOST_BATCH; t.seq--)
			if (t.tokens % t.seq == 0)
				keep_better(best, &t, known, j);
	}
}

/* The width whose weights and activations are found best; heads and length hardly matter to it. */
static void choose_width(struct trial *t, const struct config *known, const struct job_seen *j)
{
	int64_t widths[MOST_WIDTHS], best = t->r.ffn;
	size_t count = ffn_widths(j->census, &t->r, t->tokens, widths);
	bytes gap = -1;

	for (size_t i = 0; count > 1 && i < count; i++) {
		struct trial one = *t, found = { .gap = -1 };

		one.r.ffn = widths[i];
		one.heads = 1;
		one.seq = t->tokens;
		if (t->r.positions_most && t->r.positions_most < one.seq)
			one.seq = t->r.positions_most;
		while (t->tokens % one.seq)
			one.seq--;
		keep_better(&found, &one, known, j);
		if (found.gap >= 0 && (gap < 0 || found.gap < gap)) {
			gap = found.gap;
			best = widths[i];
		}
	}
	t->r.ffn = best;
}

static void choose_of(struct trial *best, const struct layers *l, const struct config *known,
		      const struct job_seen *j)
{
	struct reading_of_layer readings[MOST_READINGS];
	struct token_count tokens[MOST_TOKEN_COUNTS];
	int64_t tensor = is_marked(j, "framework", "megatron-core") ? j->world : 1;
	size_t count = layers_read(l, j->census, j->world, tensor, readings);

	for (size_t i = 0; i < count; i++) {
		size_t n = tokens_of(j->census, &readings[i], tokens);

		for (size_t k = 0; k < n; k++) {
			struct trial t = { .layers = *l,
					   .r = readings[i],
					   .tokens = tokens[k].tokens };

			for (size_t m = 0; m < j->end_count; m++)
				narrow_vocabulary(j->ends[m].census, &t.r, t.tokens);
			choose_width(&t, known, j);
			try_splits(best, t, known, j);
		}
	}
}

/* Heads and length were chosen with defaults for all that is searched for: again, with what was
 * found. */
static void split_again(struct trial *best, const struct config *known, const struct job_seen *j)
{
	struct inference i = { 0 };
	struct err e = { 0 };
	struct config c;

	config_init(&c);
	config_copy(&c, known);
	add_all(&i, &c, j, best);
	if (!config_derive(&c, &e)) {
		infer_search(&i, &c, j->ends, j->end_count);
		config_unset(&c, CONFIG_num_attention_heads);
		config_unset(&c, CONFIG_num_query_groups);
		config_unset(&c, CONFIG_seq_length);
		config_unset(&c, CONFIG_micro_batch_size);
		config_unset(&c, CONFIG_max_position_embeddings);
		best->gap = -1;
		try_splits(best, *best, &c, j);
	}
	config_release(&c);
	inference_release(&i);
}

int infer(struct inference *i, struct config *c, const struct witness *w, size_t count,
	  struct err *e)
{
	struct trial best = { .gap = -1 };
	struct job_seen j;
	size_t found = 0;

	look(&j, w, count);
	for (enum maker maker = 0; maker < MAKERS; maker++) {
		struct layers l;

		layers_find(&l, j.census, maker);
		if (l.count)
			choose_of(&best, &l, c, &j);
		found = l.count > found ? l.count : found;
	}
	if (!found)
		return err_set(e,
			       "the configuration cannot be inferred: no layers are repeated "
			       "among the parameters' blocks; declare it with --config or --set");
	if (best.gap < 0)
		return err_set(
			e,
			"the configuration cannot be inferred: what is repeated %zu times is not "
			"the layer of a decoder that is known; declare it with --config or --set",
			found);
	split_again(&best, c, &j);
	add_all(i, c, &j, &best);
	if (config_derive(c, e) < 0)
		return -1;
	infer_search(i, c, w, count);
	return config_derive(c, e);
}
