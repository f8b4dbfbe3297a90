/* Finds the tokens of a micro-batch and the widths of layers, from the sizes of activations. */
#include "infer/infer_tokens.h"

#include <stdlib.h>

#include "match/match_blocks.h"

/* A size that is RARE times rarer than the most frequent one is not a main activation of a layer.
 */
#define RARE 64
/* Sizes that are tried at most, the most frequent first. */
#define MAX_SIZES 256

static int between(wide size, wide least, wide most)
{
	return size >= least && size <= most;
}

/* How many blocks of the forward pass have a size that so many tokens explain. */
static uint64_t score_tokens(const struct alloc_profile *c, const struct layer_hypothesis *r,
			     int64_t tokens)
{
	const int64_t widths[] = { r->hidden, (r->hidden + 2 * r->kv) / r->tp, r->hidden / r->tp,
				   r->kv / r->tp };
	/* weights and activations of one element width */
	uint64_t sum = size_counts_find(&c->forward, tokens * r->hidden * r->width);

	for (size_t i = 0; i < c->forward.count; i++) {
		wide size = c->forward.list[i].size;
		int found = 0;

		for (int width = 2; width <= 4; width += 2) {
			wide each = (wide)tokens * width;

			for (size_t k = 0; k < ARRAY_SIZE(widths); k++)
				found |= size == each * widths[k];
			found |= between(size, each * r->ffn_least / r->tp, each * r->ffn / r->tp);
			found |= r->vocab_most > 0 &&
				 between(size, each * r->vocab_least / r->tp,
					 each * r->vocab_most / r->tp + MAX_UNSPLIT_TAIL);
		}
		if (found)
			sum += c->forward.list[i].count;
	}
	return sum;
}

static int by_score(const void *a, const void *b)
{
	const struct token_count *x = a, *y = b;

	return x->score != y->score ? (x->score < y->score ? 1 : -1)
				    : (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

static int most_often(const void *a, const void *b)
{
	const struct size_count *x = a, *y = b;

	return x->count != y->count ? (x->count < y->count ? 1 : -1)
				    : (x->size > y->size) - (x->size < y->size);
}

/* Each layer has several activations of b s h elements, so frequent sizes are tried. */
size_t tokens_find(const struct alloc_profile *c, const struct layer_hypothesis *r,
		   struct token_count *best)
{
	struct size_count *often = xcalloc(c->forward.count + 1, sizeof(*often));
	size_t sizes = c->forward.count < MAX_SIZES ? c->forward.count : MAX_SIZES;
	struct token_count *all = xcalloc(2 * sizes + 1, sizeof(*all));
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < c->forward.count; i++)
		often[i] = c->forward.list[i];
	if (c->forward.count)
		qsort(often, c->forward.count, sizeof(*often), most_often);
	for (size_t i = 0; i < sizes; i++)
		for (int width = 2; width <= 4; width += 2) {
			wide row = (wide)r->hidden * width;
			bytes size = often[i].size;

			/* every layer allocates several blocks of b s h */
			if (often[i].count * RARE < often[0].count)
				continue;
			if (size % row || size / row < 8 || size / row > INT64_C(1) << 32)
				continue;
			all[count].tokens = (int64_t)(size / row);
			all[count].score = score_tokens(c, r, all[count].tokens);
			count++;
		}
	if (count)
		qsort(all, count, sizeof(*all), by_score);
	for (size_t i = 0; i < count && all[i].score >= all[0].score / 4 && kept < MAX_TOKEN_COUNTS;
	     i++) {
		int known = 0;

		for (size_t k = 0; k < kept; k++)
			known |= best[k].tokens == all[i].tokens;
		if (!known)
			best[kept++] = all[i];
	}
	free(all);
	free(often);
	return kept;
}

/* Without a tail, `least` is `most`. */
int64_t round_number(int64_t least, int64_t most)
{
	for (int64_t by = INT64_C(1) << 20; by > 1; by /= 2)
		if (most / by * by >= least && most / by * by > 0)
			return most / by * by;
	return most;
}

int64_t usual_vocabulary(int64_t least, int64_t most)
{
	static const int64_t usual[] = { 32000,  32768,  50304,  50257, 65536,
					 128256, 151936, 152064, 256000 };

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (usual[i] >= least && usual[i] <= most)
			return usual[i];
	return most % 64 ? round_number(least, most) : most;
}

/* The logits have tails of their own: the smallest block that can be the logits is a bound too. */
void narrow_vocabulary(const struct alloc_profile *c, struct layer_hypothesis *r, int64_t tokens)
{
	for (size_t i = 0; i < c->forward.count && r->vocab_most > 0; i++)
		for (int width = 2; width <= 4; width += 2) {
			wide row = (wide)tokens * width;
			int64_t most = (int64_t)(c->forward.list[i].size / row) * r->tp;

			if (most >= r->vocab_least && most < r->vocab_most)
				r->vocab_most = most;
		}
}

static size_t add_width(int64_t *found, size_t count, int64_t rows)
{
	for (size_t i = 0; i < count; i++)
		if (found[i] == rows)
			return count;
	if (count < MAX_WIDTHS)
		found[count++] = rows;
	return count;
}

/* The most frequent width of activations from `least` to `most`; 0: none. Activations do not have
 * the weights' tails, but blocks that are no activations may have such a size. */
static int64_t frequent_width(const struct alloc_profile *c, int64_t tp, int64_t tokens,
			      int64_t least, int64_t most)
{
	uint64_t count = 0;
	int64_t best = 0;

	for (size_t i = 0; i < c->forward.count; i++)
		for (int width = 2; width <= 4; width += 2) {
			wide row = (wide)tokens * width;
			int64_t rows = (int64_t)(c->forward.list[i].size / row) * tp;

			if (c->forward.list[i].size % row == 0 &&
			    c->forward.list[i].count > count && rows >= least && rows <= most) {
				count = c->forward.list[i].count;
				best = rows;
			}
		}
	return best;
}

size_t widths_find(const struct alloc_profile *c, const struct layer_hypothesis *r, int64_t tokens,
		   int64_t least, int64_t most, int64_t found[MAX_WIDTHS])
{
	size_t count = add_width(found, 0, most);
	int64_t seen = frequent_width(c, r->tp, tokens, least, most);

	if (least == most)
		return count;
	if (seen)
		count = add_width(found, count, seen);
	count = add_width(found, count, round_number(least, most));
	if (4 * r->hidden >= least && 4 * r->hidden <= most)
		count = add_width(found, count, 4 * r->hidden);
	return count;
}
