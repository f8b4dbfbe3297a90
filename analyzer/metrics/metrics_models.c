#include "metrics/metrics_models.h"

#include "metrics/metrics_head.h"

#define MOST_MODELS 16
#define MIN_LAYERS 3   /* that have run: dropout comes behind the first lines of a layer */
#define MODEL_BLOCKS 4 /* parameters of a model, at least: fewer may be a head's */

/* The parameters that one line has moved to the device. */
struct moved_model {
	uint64_t line; /* a hash of the frames up to that line */
	uint64_t blocks;
};

/* The frames outside of PyTorch's innermost ones. */
static uint64_t line_of(const struct tables *t, uint32_t stack)
{
	const struct stack *s = tables_stack(t, stack);
	uint64_t hash = 0;
	uint32_t i = 0;

	while (i < s->frame_count && frame_is(t, s->frames[i], FRAME_LIBRARY))
		i++;
	for (; i < s->frame_count; i++)
		hash = (hash ^ s->frames[i]) * 0x9e3779b97f4a7c15u;
	return hash;
}

static int is_moved(const struct tables *t, const struct block_group *g)
{
	return g->category == CATEGORY_PARAMETERS &&
	       stack_hint(tables_stack_flags(t, g->stack)) == HINT_APPLY;
}

static int64_t count_moved(const struct tables *t, const struct snapshot *live)
{
	struct moved_model models[MOST_MODELS] = { 0 };
	size_t count = 0;
	int64_t whole = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		uint64_t line = is_moved(t, g) ? line_of(t, g->stack) : 0;
		size_t k = 0;

		while (k < count && models[k].line != line)
			k++;
		if (!line || k == MOST_MODELS)
			continue;
		count += k == count;
		models[k].line = line;
		models[k].blocks += g->blocks;
	}
	for (size_t i = 0; i < count; i++)
		whole += models[i].blocks >= MODEL_BLOCKS;
	return whole;
}

/* What a module of a loss with convolutions keeps; 0 if no other module keeps anything. */
static bytes loss_network(const struct metrics_pass *p, const struct snapshot *live)
{
	bytes in_loss = 0, others = 0;
	int has_layers = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		uint64_t tags = tags_at(p, g->stack);

		if (g->category != CATEGORY_ACTIVATIONS || !(tags & TAGGED(MODEL)) ||
		    tags & TAGGED(LOSS))
			continue;
		has_layers |= tags & TAGGED(LOSS_NETWORK) && tags & TAGGED(LAYER);
		add(tags & TAGGED(LOSS_NETWORK) ? &in_loss : &others, g->bytes);
	}
	return has_layers && others ? in_loss : 0;
}

/*
 * batch_norm() allocates its output, and behind that, in training mode, the mean and the deviation
 * of each channel, which are small.
 */
void metrics_note_mode(struct device_pass *d, bytes size, uint64_t tags)
{
	if (d->after_norm && (size < METRICS_MIN_BLOCK || tags & TAGGED(BATCH_NORM)))
		d->norms_trained++;
	else if (d->after_norm)
		d->norms_evaluated++;
	d->after_norm = size >= METRICS_MIN_BLOCK && tags & TAGGED(BATCH_NORM);
}

/* Live blocks of a model that drops outputs in training, by a line that several layers run: the
 * first of them are through. Compiled code drops without a line of its own. */
static int is_behind_a_layer(const struct block_group *g, uint64_t tags)
{
	return tags & TAGGED(DROPS) && !(tags & TAGGED(COMPILED)) && g->blocks >= MIN_LAYERS;
}

/*
 * Is what keeps activations in evaluation mode? Then its batch norms compute no statistics, and it
 * drops nothing at random.
 */
static int evaluates(const struct metrics_pass *p, const struct device_pass *d,
		     const struct snapshot *live)
{
	int has_norm = 0, may_drop = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		uint64_t tags = tags_at(p, g->stack);

		if (g->category != CATEGORY_ACTIVATIONS)
			continue;
		has_norm |= (tags & TAGGED(BATCH_NORM)) != 0;
		may_drop |= is_behind_a_layer(g, tags);
	}
	for (uint32_t i = 1; i < p->tables->stack_count && may_drop; i++)
		may_drop = !(d->stacks[i].blocks && p->tags[i] & TAGGED(DROPOUT));
	return !d->norms_trained && ((has_norm && d->norms_evaluated) || may_drop);
}

/* Buffers of one size: as masks or tables that each layer has for itself. */
static void find_buffers(struct metrics *m, const struct snapshot *live)
{
	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->category != CATEGORY_BUFFERS || g->smallest != g->largest ||
		    g->bytes <= m->buffers)
			continue;
		m->buffers = g->bytes;
		m->buffer_blocks = (int64_t)g->blocks;
	}
}

void metrics_find_models(const struct metrics_pass *p, const struct device_pass *d,
			 const struct snapshot *live)
{
	d->m->first_caller = !d->called_untrained && d->pending.count + d->trained.count == 1;
	d->m->evaluation_mode = evaluates(p, d, live);
	find_buffers(d->m, live);
	d->m->roots = metrics_count_roots(p, live);
	d->m->moved_models = count_moved(p->tables, live);
	d->m->loss_network = loss_network(p, live);
}
