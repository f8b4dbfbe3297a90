#include "metrics/metrics_attention.h"

#include "metrics/metrics_head.h"
#include "metrics/metrics_sizes.h"
#include "util/glob.h"

#include <stdlib.h>

#define MAX_SCORES 64   /* stacks that may make scores; each is compared with all others */
#define MIN_FUSED_OFF 3 /* blocks of one size: a mask and its copy are no scores */
#define MAX_MODULES 2   /* around scores, whose linear layers are looked at */

/* The blocks of one stack. */
struct site {
	uint32_t stack;
	bytes size;
	uint64_t blocks;
};

/* The live blocks of the stacks that have frames, and behind them the failed request. */
static struct site site_at(const struct failure *f, const struct snapshot *live, size_t i)
{
	const struct block_group *g = i < live->count ? &live->groups[i] : NULL;

	if (!g)
		return (struct site){ f->stack, f->requested, 1 };
	return (struct site){ g->origin ? 0 : g->stack, g->largest, g->blocks };
}

static size_t site_count(const struct failure *f, const struct snapshot *live)
{
	return live->count + (f != NULL);
}

/* Is a frame not PyTorch's own? */
static int is_of_job(const struct tables *t, const struct stack *s, uint32_t frames)
{
	return !frame_is(t, s->frames[s->frame_count - frames], FRAME_LIBRARY);
}

/* The frames from the innermost function outwards that is not PyTorch's, of at most so many; 0:
 * there is none. */
static uint32_t frames_of_caller(const struct tables *t, const struct stack *s, uint32_t frames)
{
	while (frames && !is_of_job(t, s, frames))
		frames--;
	return frames;
}

/* Is stack `a` within the same call of the function that is so many frames from the outermost one
 * of stack `scores`? */
static int in_same_call(const struct tables *t, uint32_t a, uint32_t scores, uint32_t frames)
{
	const struct stack *s = tables_stack(t, a), *b = tables_stack(t, scores);
	const struct mt_frame *one, *other;

	if (!frames || s->frame_count < frames)
		return 0;
	for (uint32_t i = 1; i < frames; i++)
		if (s->frames[s->frame_count - i] != b->frames[b->frame_count - i])
			return 0;
	one = tables_frame(t, s->frames[s->frame_count - frames]);
	other = tables_frame(t, b->frames[b->frame_count - frames]);
	return one->file == other->file && one->function == other->function;
}

/* The innermost frame that is not PyTorch's; NULL: there is none. */
static const struct mt_frame *caller_of(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);
	uint32_t frames = frames_of_caller(t, s, s->frame_count);

	return frames ? tables_frame(t, s->frames[s->frame_count - frames]) : NULL;
}

/* Is it of an adapter around a linear layer? */
static int is_of_adapter(const struct tables *t, uint32_t stack)
{
	const struct mt_frame *f = caller_of(t, stack);

	return f && str_matches(tables_string(t, f->file), "*/peft/tuners/*");
}

/* The largest block of a linear layer in the call. Of one with an adapter, the narrow matrices are
 * linear layers too; casts and sums have its width. */
static bytes largest_linear(const struct metrics_pass *p, const struct failure *f,
			    const struct snapshot *live, uint32_t scores, uint32_t frames)
{
	bytes linear = 0;

	for (size_t i = 0; i < site_count(f, live); i++) {
		struct site site = site_at(f, live, i);

		if ((tags_at(p, site.stack) & TAGGED(LINEAR) ||
		     is_of_adapter(p->tables, site.stack)) &&
		    in_same_call(p->tables, site.stack, scores, frames))
			linear = larger_of(linear, site.size);
	}
	return linear;
}

/*
 * The call whose linear layers the scores are compared with: of the function that makes them, or
 * that calls it, up to the module around the one that does. 0: there is none.
 */
static uint32_t find_call(const struct metrics_pass *p, const struct failure *f,
			  const struct snapshot *live, uint32_t scores, bytes *linear)
{
	const struct stack *s = tables_stack(p->tables, scores);
	uint32_t frames = frames_of_caller(p->tables, s, s->frame_count);
	unsigned modules = 0;

	for (; frames && modules < MAX_MODULES;
	     frames = frames_of_caller(p->tables, s, frames - 1)) {
		*linear = largest_linear(p, f, live, scores, frames);
		if (*linear)
			return frames;
		modules +=
			frame_is(p->tables, s->frames[s->frame_count - frames], FRAME_FORWARD) != 0;
	}
	return 0;
}

/* Is it what PyTorch's attention makes, or a mask for it? A fused kernel has no scores. */
static int is_of_sdpa(const struct tables *t, uint32_t stack)
{
	const struct mt_frame *f = caller_of(t, stack);

	return f && str_matches(tables_string(t, f->function), "sdpa_attention_forward");
}

/* Is it of a norm, which may compute in a wider type? */
static int is_of_norm(const struct tables *t, uint32_t stack)
{
	const struct mt_frame *f = caller_of(t, stack);

	return f && str_matches(tables_string(t, f->function), "*Norm*.forward");
}

/* Does a block count as scores: of softmax, or of a function whose name speaks of attention? */
static int may_be_score(const struct metrics_pass *p, uint32_t stack, stack_tags kind)
{
	stack_tags tags = tags_at(p, stack);

	return tags & kind && !(tags & TAGGED(LINEAR)) && !is_of_norm(p->tables, stack) &&
	       !is_of_adapter(p->tables, stack);
}

/* Are two or more blocks of this size and kind live in the call, each more than twice as large as
 * what its linear layers make, of which there is one? Returns the call. */
static uint32_t is_attention(const struct metrics_pass *p, const struct failure *f,
			     const struct snapshot *live, const struct site *scores)
{
	stack_tags kind = tags_at(p, scores->stack) & (TAGGED(PROBABILITIES) | TAGGED(ATTENDS));
	uint64_t blocks = 0;
	bytes linear = 0;
	uint32_t frames = find_call(p, f, live, scores->stack, &linear);

	for (size_t i = 0; frames && i < site_count(f, live); i++) {
		struct site site = site_at(f, live, i);

		if (may_be_score(p, site.stack, kind) &&
		    is_same_half_or_twice(site.size, scores->size) &&
		    in_same_call(p->tables, site.stack, scores->stack, frames))
			blocks += site.blocks;
	}
	return blocks >= 2 && scores->size / 2 > linear ? frames : 0;
}

/* Is it of the model, or of a function of the job's own whose name speaks of attention? */
static int is_of_model(const struct metrics_pass *p, uint32_t stack)
{
	stack_tags tags = tags_at(p, stack);

	return tags & TAGGED(MODEL) ||
	       (tags & TAGGED(ATTENDS) && tables_stack_is_own_code(p->tables, stack));
}

/* Tags the stacks of the call's linear layers and of its scores. */
static void tag_call(struct metrics_pass *p, const struct failure *f, const struct snapshot *live,
		     const struct site *scores, uint32_t frames)
{
	for (size_t i = 0; i < site_count(f, live); i++) {
		struct site site = site_at(f, live, i);
		stack_tags tags = tags_at(p, site.stack);

		if (tags &&
		    (tags & TAGGED(LINEAR) || is_same_half_or_twice(site.size, scores->size)) &&
		    in_same_call(p->tables, site.stack, scores->stack, frames))
			p->tags[site.stack] |= TAGGED(ATTENTION);
	}
}

/* Are several blocks of PyTorch's attention much larger than what the linear layers around it make,
 * and a third of all? Then no fused kernel could run, and the one that multiplies matrices keeps
 * their scores. A mask, of which each layer may have a copy, is as large as one head's scores. */
static int keeps_scores(const struct metrics_pass *p, const struct failure *f,
			const struct snapshot *live, uint32_t stack)
{
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		bytes linear = 0;

		if (g->stack == stack && !g->origin && g->alike >= MIN_FUSED_OFF &&
		    find_call(p, f, live, stack, &linear) && g->largest / 4 > linear &&
		    g->bytes >= live->bytes / 3)
			return 1;
	}
	return 0;
}

/* The model's outermost forward() on a stack; NULL if there is none, or if another module on it has
 * a name of attention. */
static const struct mt_frame *attention_as_model(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);
	const struct mt_frame *root = metrics_root_of(t, stack);

	if (!root)
		return NULL;
	for (uint32_t i = 0; i < s->frame_count; i++) {
		const struct mt_frame *f = tables_frame(t, s->frames[i]);

		if (frame_is(t, s->frames[i], FRAME_FORWARD) && f != root &&
		    str_matches(tables_string(t, f->function), "*ttention*"))
			return NULL;
	}
	return root;
}

#define MIN_NETWORK 4 /* stacks of layers: an attention may have three projections, or a patch */

/* A model with several convolutions or batch norms of its own is a network, whatever its name, and
 * what these make are no scores. */
static void untag_networks(struct metrics_pass *p)
{
	const stack_tags layers = TAGGED(LAYER) | TAGGED(BATCH_NORM);
	uint32_t *count = xcalloc(p->tables->string_count + 1, sizeof(*count)); /* by function */
	const struct mt_frame *root;

	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->tags[i] & TAGGED(ATTENTION) && p->tags[i] & layers) {
			root = attention_as_model(p->tables, i);
			count[root ? root->function : 0]++;
			p->tags[i] &= ~(TAGGED(ATTENTION) | TAGGED(ATTENDS));
		}
	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		root = p->tags[i] & TAGGED(ATTENTION) ? attention_as_model(p->tables, i) : NULL;
		if (root && root->function && count[root->function] >= MIN_NETWORK)
			p->tags[i] &= ~(TAGGED(ATTENTION) | TAGGED(ATTENDS));
	}
	free(count);
}

void metrics_tag_attention(struct metrics_pass *p, const struct failure *f,
			   const struct snapshot *live)
{
	size_t visited = 0;

	untag_networks(p);
	for (uint32_t i = 1; i < p->tables->stack_count; i++) {
		if (!(p->tags[i] & TAGGED(ATTENTION)))
			continue;
		if (is_of_adapter(p->tables, i))
			p->tags[i] |= TAGGED(LINEAR);
		else if ((is_of_sdpa(p->tables, i) && !keeps_scores(p, f, live, i)) ||
			 is_of_norm(p->tables, i))
			p->tags[i] &= ~(TAGGED(ATTENTION) | TAGGED(ATTENDS));
	}
	for (size_t i = 0; i < site_count(f, live) && visited < MAX_SCORES; i++) {
		struct site site = site_at(f, live, i);
		stack_tags tags = tags_at(p, site.stack);
		uint32_t frames;

		if (!may_be_score(p, site.stack, TAGGED(PROBABILITIES) | TAGGED(ATTENDS)) ||
		    !is_of_model(p, site.stack) ||
		    tags & (TAGGED(LOSS) | TAGGED(ATTENTION) | TAGGED(KV_CACHE)))
			continue;
		visited++;
		frames = is_attention(p, f, live, &site);
		if (frames)
			tag_call(p, f, live, &site, frames);
	}
}
