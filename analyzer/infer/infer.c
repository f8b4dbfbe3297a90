#include "infer/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer_layers.h"
#include "infer/infer_search.h"
#include "infer/infer_tokens.h"
#include "infer/infer_values.h"
#include "config/parameter_count.h"
#include "match/match.h"
#include "systems/memtrace.h"
#include "readers/derive.h"

#define MAX_BATCH 4096
#define MAX_TOPK 16
#define LEAST_LENGTH 8 /* tokens of a sequence */
/* While other values are open, a difference below 1/NOISE of the smallest gap says nothing. */
#define NOISE 32

static void input_init(struct infer_input *j, const struct observed_rank *w, size_t count)
{
	*j = (struct infer_input){ .w = w, .count = count, .world = 1 };
	for (size_t k = 0; k < count; k++) {
		j->signatures |= w[k].profile->signatures;
		if (w[k].rank->world_size > j->world)
			j->world = w[k].rank->world_size;
	}
	j->profile = w[0].profile;
	j->clear = (bytes)(CLEARLY * (double)infer_observed(w, count));
	j->notable = (bytes)(WORSE * (double)infer_observed(w, count));
	j->ends[j->end_count++] = w[0];
	if (count > 1 && has_signature(j, "pipeline_model_parallel_size", ""))
		j->ends[j->end_count++] = w[count - 1];
}

/* ---- candidates ---- */

static bytes candidate_gap(const struct config *known, const struct infer_input *j,
			   const struct candidate *t, const char *attention, bytes enough)
{
	struct inferred_config i = { 0 };
	struct err e = { 0 };
	struct config c;
	bytes gap = -1;

	config_init(&c);
	config_copy(&c, known);
	infer_values(&i, &c, j, t);
	inferred_add(&i, &c, CONFIG_attention, INFERRED_GUESS, attention, "tried");
	if (has_signature(j, "framework", "deepspeed"))
		inferred_add(&i, &c, CONFIG_zero_stage, INFERRED_GUESS, "2", "tried");
	infer_type_defaults(&i, &c, 1);
	if (!config_derive(&c, &e)) {
		gap = infer_gap(&c, j->ends, j->end_count, enough);
		if (gap < 0 && !*j->progress->refusal.text)
			infer_refusal(&c, j->ends, &e);
	}
	if (!*j->progress->refusal.text)
		j->progress->refusal = e;
	config_release(&c);
	inferred_release(&i);
	return gap;
}

/* Returns the candidate's smallest gap over kinds of attention; -1: it cannot be estimated. */
static bytes keep_better(struct candidate *best, struct candidate *t, const struct config *known,
			 const struct infer_input *j)
{
	static const char *const kinds[] = { "sdpa", "eager" };
	int told = has_signature(j, "attention", "sdpa") ||
		   has_signature(j, "attention", "eager") ||
		   has_signature(j, "attention", "flash") || config_has(known, CONFIG_attention);
	bytes least = -1;

	for (size_t k = 0; k < (told ? 1 : ARRAY_SIZE(kinds)); k++) {
		t->gap = candidate_gap(known, j, t, kinds[k],
				       best->gap < 0 ? -1 : bytes_add(best->gap, j->clear));
		if (t->gap >= 0 && (least < 0 || t->gap < least))
			least = t->gap;
		if (t->gap >= 0 && (best->gap < 0 || t->gap < best->gap))
			*best = *t;
	}
	return least;
}

struct split {
	int64_t seq, heads;
	bytes gap;
};

struct splits {
	struct split *all;
	size_t count, room;
	struct candidate best, longest; /* `longest`: the best one with the longest length */
};

/* Records the smallest gap of the splits with another length, and of those with other heads. */
static void set_next_gaps(struct candidate *best, const struct split *all, size_t count)
{
	best->seq_next = best->heads_next = -1;
	for (size_t i = 0; i < count; i++) {
		if (all[i].gap < 0)
			continue;
		if (all[i].seq != best->seq && (best->seq_next < 0 || all[i].gap < best->seq_next))
			best->seq_next = all[i].gap;
		if (all[i].heads != best->heads &&
		    (best->heads_next < 0 || all[i].gap < best->heads_next))
			best->heads_next = all[i].gap;
	}
}

/* The longest sequence that divides the tokens and has a position for each token. */
static int64_t longest(const struct candidate *t)
{
	int64_t most = t->tokens;

	if (t->r.positions_most && t->r.positions_most < most)
		most = t->r.positions_most;
	for (int64_t batch = 1; batch <= MAX_BATCH && batch <= t->tokens; batch++)
		if (t->tokens % batch == 0 && t->tokens / batch <= most)
			return t->tokens / batch;
	return 1;
}

/* Tries all lengths with so many heads, the longest first. */
static void try_lengths(struct splits *s, struct candidate t, const struct config *known,
			const struct infer_input *j)
{
	int64_t most = longest(&t);

	for (int64_t batch = 1; batch <= MAX_BATCH && t.tokens / batch >= LEAST_LENGTH; batch++) {
		bytes gap;

		if (t.tokens % batch || t.tokens / batch > most)
			continue;
		t.seq = t.tokens / batch;
		gap = keep_better(&s->best, &t, known, j);
		s->all = grow(s->all, s->count, &s->room, sizeof(*s->all));
		s->all[s->count++] = (struct split){ t.seq, t.heads, gap };
		if (gap >= 0 && t.seq == most && (s->longest.gap < 0 || gap < s->longest.gap)) {
			s->longest = t;
			s->longest.gap = gap;
		}
	}
}

/* Tries lengths (divisors of the tokens) and numbers of heads (usual widths of a head). A model
 * that learns positions is assumed to train with the longest length, unless another one is notably
 * better. transformers' models have positions for more than they train with. */
static void try_splits(struct candidate *best, struct candidate t, const struct config *known,
		       const struct infer_input *j)
{
	static const int64_t widths[] = { 64, 128, 96, 80, 256, 32, 192, 160, 112, 48, 16 };
	struct splits s = { .best = { .gap = -1 }, .longest = { .gap = -1 } };

	for (size_t k = 0; k < ARRAY_SIZE(widths); k++) {
		if (t.r.hidden % widths[k] || t.r.kv % widths[k])
			continue;
		t.heads = t.r.hidden / widths[k];
		try_lengths(&s, t, known, j);
	}
	if (t.r.positions_most && s.longest.gap >= 0 &&
	    !has_signature(j, "framework", "transformers") &&
	    s.longest.gap - s.best.gap <= t.notable + s.best.gap / NOISE)
		s.best = s.longest;
	if (s.best.gap >= 0 && (best->gap < 0 || s.best.gap < best->gap)) {
		set_next_gaps(&s.best, s.all, s.count);
		*best = s.best;
	}
	free(s.all);
}

/* Tries the widths that the weights allow, with so many experts a token. Heads and length hardly
 * change the result; before they are known, any are used. */
static void try_widths(struct candidate *best, const struct candidate *t, int64_t topk,
		       const struct config *known, const struct infer_input *j)
{
	const struct layer_hypothesis *r = &t->r;
	int64_t ffn[MAX_WIDTHS], shared[MAX_WIDTHS];
	size_t count = widths_find(j->profile, r, t->tokens * (topk ? topk : 1), r->ffn_least,
				   r->ffn, ffn),
	       shares = widths_find(j->profile, r, t->tokens, r->shared_least, r->shared, shared);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < shares; k++) {
			struct candidate one = *t;

			one.r.ffn = ffn[i];
			one.r.shared = shared[k];
			one.topk = topk;
			if (!one.seq) {
				one.heads = 1;
				one.seq = longest(t);
			}
			keep_better(best, &one, known, j);
		}
}

static void choose_widths(struct candidate *t, const struct config *known,
			  const struct infer_input *j)
{
	int64_t most = t->r.experts < MAX_TOPK ? t->r.experts : MAX_TOPK;
	struct candidate best = { .gap = -1 };
	bytes next = -1;

	for (int64_t topk = most > 0; topk <= most; topk++) {
		struct candidate one = { .gap = -1 }, less = best;

		try_widths(&one, t, topk, known, j);
		if (one.gap < 0)
			continue;
		if (best.gap < 0 || one.gap < best.gap)
			best = one;
		else
			less = one;
		if (less.gap >= 0 && (next < 0 || less.gap < next))
			next = less.gap;
	}
	if (best.gap < 0)
		return;
	t->r.ffn = best.r.ffn;
	t->r.shared = best.r.shared;
	t->topk = best.topk;
	t->topk_is_clear = next < 0 || next - best.gap >= t->notable;
}

static void choose_of(struct candidate *best, const struct layers *l, const struct config *known,
		      const struct infer_input *j)
{
	struct layer_hypothesis hypotheses[MAX_HYPOTHESES];
	struct token_count tokens[MAX_TOKEN_COUNTS];
	const struct job_assumptions job = {
		.shards = j->world,
		.world = has_signature(j, "framework", "megatron-core") ? j->world : 1,
		.experts = has_signature(j, "num_experts", ""),
	};
	size_t count = layers_interpret(l, j->profile, &job, hypotheses);

	j->progress->readings += count;
	for (size_t i = 0; i < count; i++) {
		size_t n = tokens_find(j->profile, &hypotheses[i], tokens);

		j->progress->token_counts += n;
		for (size_t k = 0; k < n; k++) {
			struct candidate t = { .layers = *l,
					       .r = hypotheses[i],
					       .tokens = tokens[k].tokens,
					       .notable = j->notable,
					       .ffn_most = hypotheses[i].ffn,
					       .shared_most = hypotheses[i].shared };

			for (size_t m = 0; m < j->end_count; m++)
				narrow_vocabulary(j->ends[m].profile, &t.r, t.tokens);
			choose_widths(&t, known, j);
			try_splits(best, t, known, j);
		}
	}
}

/* The widths, the length and the heads were chosen with defaults for all other keys. Chooses again
 * with the values that a search found for these. */
static void choose_again(struct candidate *best, const struct config *known,
			 const struct infer_input *j)
{
	static const enum config_field chosen[] = {
		CONFIG_num_attention_heads,
		CONFIG_num_query_groups,
		CONFIG_seq_length,
		CONFIG_micro_batch_size,
		CONFIG_max_position_embeddings,
		CONFIG_ffn_hidden_size,
		CONFIG_moe_ffn_hidden_size,
		CONFIG_moe_router_topk,
		CONFIG_moe_shared_expert_intermediate_size,
	};
	struct inferred_config i = { 0 };
	struct err e = { 0 };
	struct config c;

	config_init(&c);
	config_copy(&c, known);
	infer_values(&i, &c, j, best);
	if (!config_derive(&c, &e)) {
		infer_search(&i, &c, j->ends, j->end_count);
		for (size_t k = 0; k < ARRAY_SIZE(chosen); k++)
			if (!config_has(known, chosen[k]))
				config_unset(&c, chosen[k]);
		best->r.ffn = best->ffn_most;
		best->r.shared = best->shared_most;
		choose_widths(best, &c, j);
		best->gap = -1;
		try_splits(best, *best, &c, j);
	}
	config_release(&c);
	inferred_release(&i);
}

/* Writes the first and the last rank of each stage to `ends`, which has room for all ranks. Ranks
 * between have the same blocks, and each rank costs an estimate of the model. */
static size_t ends_of_stages(const struct config *c, const struct observed_rank *w, size_t count,
			     struct observed_rank *ends)
{
	int64_t *stages = xcalloc(count, sizeof(*stages));
	size_t kept = 0;

	for (size_t k = 0; k < count; k++)
		stages[k] = match_coordinates(c, w[k].rank).at[AXIS_PP];
	for (size_t k = 0; k < count; k++) {
		int first = 1, last = 1;

		for (size_t n = 0; n < count && (first || last); n++)
			if (stages[n] == stages[k]) {
				first &= n >= k;
				last &= n <= k;
			}
		if (first || last)
			ends[kept++] = w[k];
	}
	free(stages);
	return kept;
}

#define GIVE \
	"Give the model with --config FILE (its config.json), and with --set KEY=VALUE micro_batch_size, seq_length and precision"

/* What cannot be inferred by its code; no layers are looked for. */
static int check_code(const struct infer_input *j, struct err *e)
{
	const char *type = j->profile->model_type;

	if (has_signature(j, "lora_rank", ""))
		return err_set(e,
			       "cannot infer the configuration: the model has adapters (frames of "
			       "peft/tuners), and decoders without them are inferred. " GIVE
			       ", lora_rank and lora_target_modules");
	if (type && (config_is_encoder(type) || config_is_t5(type)))
		return err_set(e,
			       "cannot infer the configuration: the model is a %s (frames of "
			       "transformers/models), and decoders are inferred. " GIVE,
			       type);
	return 0;
}

/* Says what was looked for and not found. */
static int fail(const struct infer_input *j, struct err *e)
{
	const struct infer_progress *p = j->progress;
	size_t blocks = 0;

	for (enum parameter_source m = 0; m < SOURCES; m++)
		blocks += j->profile->parameters[m].count;
	if (!j->profile->forward.count)
		return err_set(e,
			       "cannot infer seq_length: looked for the forward pass of a training "
			       "step, of which an estimate is, and found none. " GIVE);
	if (!p->layers)
		return err_set(e,
			       "cannot infer num_layers: looked for two or more layers of the same "
			       "sizes among %zu blocks of parameters. " GIVE,
			       blocks);
	if (!p->readings)
		return err_set(
			e,
			"cannot infer hidden_size: %zu layers of %zu blocks repeat; looked in "
			"them for the matrices of attention (queries, keys, values, output) "
			"and two or three of a feed-forward network. " GIVE,
			p->layers, p->period);
	if (!p->token_counts)
		return err_set(e,
			       "cannot infer seq_length: looked in the forward pass for frequent "
			       "blocks of hidden_size elements for each token. " GIVE);
	return err_set(e, "cannot estimate the layers that were found: %.250s. " GIVE,
		       *p->refusal.text ? p->refusal.text
					: "their tokens are no sequences of eight or more");
}

int infer(struct inferred_config *i, struct config *c, const struct observed_rank *w, size_t count,
	  struct err *e)
{
	struct infer_progress progress = { 0 };
	struct candidate best = { .gap = -1 };
	struct observed_rank *last;
	struct infer_input j;

	input_init(&j, w, count);
	j.progress = &progress;
	if (check_code(&j, e) < 0)
		return -1;
	for (enum parameter_source source = 0; source < SOURCES; source++) {
		struct layers l;

		layers_find(&l, j.profile, source);
		if (l.count)
			choose_of(&best, &l, c, &j);
		if (l.count > progress.layers) {
			progress.layers = l.count;
			progress.period = l.period;
		}
	}
	if (best.gap < 0)
		return fail(&j, e);
	choose_again(&best, c, &j);
	infer_values(i, c, &j, &best);
	if (config_derive(c, e) < 0)
		return -1;
	last = xcalloc(count, sizeof(*last));
	infer_search(i, c, last, ends_of_stages(c, w, count, last));
	free(last);
	return config_derive(c, e);
}
