#include "metrics/metrics_attention.h"

#include "metrics/metrics_sizes.h"

#define MAX_SOFTMAX 64 /* stacks that call softmax; each is compared with all others */

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

static uint64_t tags_of(const struct metrics_pass *p, uint32_t stack)
{
	return stack < p->tables->stack_count ? p->tags[stack] : 0;
}

/* The frames from the function that calls softmax outwards; 0: none but PyTorch's own. */
static uint32_t frames_of_caller(const struct tables *t, const struct stack *s)
{
	for (uint32_t i = 0; i < s->frame_count; i++)
		if (!frame_is(t, s->frames[i], FRAME_LIBRARY))
			return s->frame_count - i;
	return 0;
}

/* Is stack `a` within the same call of the function that calls softmax on stack `softmax`? */
static int in_same_call(const struct tables *t, uint32_t a, uint32_t softmax)
{
	const struct stack *s = tables_stack(t, a), *b = tables_stack(t, softmax);
	uint32_t frames = frames_of_caller(t, b);
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

/* Are two or more softmaxes of this size live in the call, each more than twice as large as what
 * its linear layers make, of which there is one? */
static int is_attention(const struct metrics_pass *p, const struct failure *f,
			const struct snapshot *live, const struct site *softmax)
{
	uint64_t blocks = 0;
	bytes linear = 0;

	for (size_t i = 0; i < site_count(f, live); i++) {
		struct site site = site_at(f, live, i);
		uint64_t tags = tags_of(p, site.stack);

		if (!tags || !in_same_call(p->tables, site.stack, softmax->stack))
			continue;
		if (tags & TAGGED(LINEAR))
			linear = larger_of(linear, site.size);
		if (tags & TAGGED(PROBABILITIES) && is_kin(site.size, softmax->size))
			blocks += site.blocks;
	}
	return blocks >= 2 && linear && softmax->size / 2 > linear;
}

/* Tags the stacks of the call's linear layers and of its scores. */
static void tag_call(struct metrics_pass *p, const struct failure *f, const struct snapshot *live,
		     const struct site *softmax)
{
	for (size_t i = 0; i < site_count(f, live); i++) {
		struct site site = site_at(f, live, i);
		uint64_t tags = tags_of(p, site.stack);

		if (tags && (tags & TAGGED(LINEAR) || is_kin(site.size, softmax->size)) &&
		    in_same_call(p->tables, site.stack, softmax->stack))
			p->tags[site.stack] |= TAGGED(ATTENTION);
	}
}

void metrics_tag_attention(struct metrics_pass *p, const struct failure *f,
			   const struct snapshot *live)
{
	size_t visited = 0;

	for (size_t i = 0; i < site_count(f, live) && visited < MAX_SOFTMAX; i++) {
		struct site site = site_at(f, live, i);
		uint64_t tags = tags_of(p, site.stack);

		if (!(tags & TAGGED(PROBABILITIES)) || !(tags & TAGGED(MODEL)) ||
		    tags & (TAGGED(LOSS) | TAGGED(ATTENTION) | TAGGED(KV_CACHE)))
			continue;
		visited++;
		if (is_attention(p, f, live, &site))
			tag_call(p, f, live, &site);
	}
}
