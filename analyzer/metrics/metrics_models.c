#include "metrics/metrics_models.h"

#include "metrics/metrics_counterfactual.h"
#include "metrics/metrics_head.h"
#include "source/computed.h"
#include "source/generated.h"
#include "source/gradients.h"
#include "source/last_token.h"
#include "source/loops.h"
#include "source/no_grad.h"
#include "source/optimizer_states.h"
#include "source/settings.h"
#include "source/summed.h"
#include "source/unoptimized.h"
#include "source/unrolled.h"
#include "util/glob.h"

#define MOST_MODELS 16
#define MIN_LAYERS 3      /* that have run: dropout comes behind the first lines of a layer */
#define MIN_GRAPH 8       /* blocks of a graph: fewer may be of a layer that runs */
#define MIN_CALLS_GRAPH 5 /* the same where the source tells the calls: three are of a layer */
#define MIN_CALLS_LOOP 4  /* blocks of each line, at least, of several calls or layers */
#define FEW_BYTES 200     /* a part of all */
#define MODEL_BLOCKS 4    /* parameters of a model, at least: fewer may be a head's */

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

/* Is the outermost forward() of a network whose features losses compare? */
static int is_root_vgg(const struct tables *t, uint32_t stack)
{
	const struct mt_frame *root = metrics_root_of(t, stack);
	struct str name = root ? tables_string(t, root->function) : (struct str){ 0 };

	return (str_matches(name, "VGG*") || str_matches(name, "Vgg*")) &&
	       !str_matches(name, "VGGT*") && !str_matches(name, "*Discriminator*");
}

/* What a network in a loss keeps, that is, one with convolutions in a module of a loss, or a VGG
 * beside another module; 0 if no other module keeps anything. */
static bytes loss_network(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live)
{
	const stack_tags layer_of_loss = TAGGED(LOSS_NETWORK) | TAGGED(LAYER);
	bytes in_loss = 0, others = 0;
	int has_layers = 0;

	/* What an activation function follows is freed. */
	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		has_layers |= d->stacks[i].blocks && (p->tags[i] & layer_of_loss) == layer_of_loss;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		stack_tags tags = tags_at(p, g->stack);
		int is_vgg;

		if (g->category != CATEGORY_ACTIVATIONS || !(tags & TAGGED(MODEL)) ||
		    tags & TAGGED(LOSS))
			continue;
		is_vgg = is_root_vgg(p->tables, g->stack);
		has_layers |= is_vgg;
		add(is_vgg || tags & TAGGED(LOSS_NETWORK) ? &in_loss : &others, g->bytes);
	}
	return has_layers && others ? in_loss : 0;
}

/* What the encoder of an autoencoder keeps that the job's own code calls beside another model, as
 * latent diffusion does: its training calls the decoder. */
static bytes latent_encoder(const struct metrics_pass *p, const struct snapshot *live)
{
	bytes encoder = 0, others = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];
		stack_tags tags = tags_at(p, g->stack);

		if (g->category != CATEGORY_ACTIVATIONS)
			continue;
		if (tags & TAGGED(DECODER))
			return 0;
		if (tags & TAGGED(ENCODER))
			add(&encoder, g->bytes);
		else if (tags & TAGGED(MODEL))
			add(&others, g->bytes);
	}
	return others ? encoder : 0;
}

/* Did the stack allocate while its thread made nodes, or is that not known? */
static int makes_nodes(const struct metrics_pass *p, uint32_t stack)
{
	const uint8_t *made = p->grad_modes.stacks;

	return stack >= p->tables->stack_count || made[stack] != 1 << NODES_NONE;
}

static int may_be_of_graph(const struct metrics_pass *p, const struct block_group *g,
			   stack_tags tags)
{
	return makes_nodes(p, g->stack) && g->category != CATEGORY_PARAMETERS &&
	       g->category != CATEGORY_INPUTS && (tags_at(p, g->stack) & tags) == tags;
}

/* What modules keep with a tag of their stacks: without a graph, few blocks. */
static bytes graph_of(const struct metrics_pass *p, const struct snapshot *live, stack_tags tags)
{
	uint64_t blocks = 0;
	bytes sum = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (may_be_of_graph(p, g, tags)) {
			blocks += g->blocks;
			add(&sum, g->bytes);
		}
	}
	return blocks >= MIN_GRAPH ? sum : 0;
}

typedef int stack_test(struct job_source *s, uint32_t stack);

/* How many calls the blocks of lines come from. A line that no layer repeats has one for each. */
struct call_count {
	uint64_t fewest; /* blocks of a line, but for those of which one line has a single one */
	size_t singles;  /* lines with a single block */
};

static void count_calls(struct call_count *c, uint64_t blocks)
{
	if (blocks == 1)
		c->singles++;
	else if (blocks < c->fewest)
		c->fewest = blocks;
}

/* Did a call of a model make the blocks, for its backward pass or its results? */
static int is_of_call(const struct metrics_pass *p, const struct block_group *g)
{
	return (g->category == CATEGORY_ACTIVATIONS || g->category == CATEGORY_TEMPORARIES) &&
	       tags_at(p, g->stack) & TAGGED(MODEL);
}

/* Of a loop, by its stacks: the activations of its calls but for the newest, and their number. A
 * few small blocks may be of one call alone, and a single block one that the layer at work will
 * free. */
static bytes earlier_calls(const struct metrics_pass *p, const struct snapshot *live,
			   struct job_source *source, stack_test *is_of_loop, int64_t *count)
{
	struct call_count calls = { .fewest = UINT64_MAX };
	bytes sum = 0;

	for (int all = 1; all >= 0; all--)
		for (size_t i = 0; i < live->count; i++) {
			const struct block_group *g = &live->groups[i];

			if (!is_of_call(p, g) || tags_at(p, g->stack) & TAGGED(LOSS) ||
			    !is_of_loop(source, g->stack))
				continue;
			if (all)
				add(&sum, g->bytes);
			else if (g->bytes >= sum / FEW_BYTES)
				count_calls(&calls, g->blocks);
		}
	if (!sum || calls.fewest == UINT64_MAX || calls.singles > 1)
		return 0;
	*count = (int64_t)calls.fewest - 1;
	return sum / (bytes)calls.fewest * (bytes)(calls.fewest - 1);
}

/* The activations of a kind of calls. A part that is frozen keeps little of what it makes. */
static bytes live_of_calls(const struct metrics_pass *p, const struct snapshot *live,
			   struct job_source *source, stack_test *is_of_kind)
{
	uint64_t blocks = 0;
	bytes sum = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (!is_of_call(p, g) || !is_of_kind(source, g->stack))
			continue;
		blocks += g->blocks;
		add(&sum, g->bytes);
	}
	return blocks >= MIN_CALLS_GRAPH ? sum : 0;
}

/* Has each line of a kind of calls, but for small blocks and for one line, blocks of several calls,
 * or of several layers? `sum`: live_of_calls() of that kind. */
static int is_repeated(const struct metrics_pass *p, const struct snapshot *live, bytes sum,
		       struct job_source *source, stack_test *is_of_kind)
{
	struct call_count calls = { .fewest = UINT64_MAX };

	for (size_t i = 0; i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (is_of_call(p, g) && g->bytes >= sum / FEW_BYTES && is_of_kind(source, g->stack))
			count_calls(&calls, g->blocks);
	}
	return sum && calls.singles <= 1 && calls.fewest >= MIN_CALLS_LOOP &&
	       calls.fewest < UINT64_MAX;
}

/* What the source of a job tells of what models keep. */
static void find_by_source(const struct metrics_pass *p, struct metrics *m,
			   const struct snapshot *live)
{
	struct job_source source;
	bytes rollout;

	m->source_states = -1;
	if (!m->died && !p->measures_need)
		return;
	job_source_begin(&source, p->tables, p->trace->header.start_realtime_ns);
	m->unoptimized = live_of_calls(p, live, &source, job_source_is_unoptimized);
	m->generator_graph = larger_of(m->generator_graph,
				       live_of_calls(p, live, &source, job_source_is_generated));
	m->summed = earlier_calls(p, live, &source, job_source_is_summed, &m->summed_calls);
	m->unrolled = earlier_calls(p, live, &source, job_source_is_unrolled, &m->unrolled_calls);
	rollout = live_of_calls(p, live, &source, job_source_is_rollout);
	m->source_rollout = is_repeated(p, live, rollout, &source, job_source_is_rollout);
	m->rollout_graph = larger_of(m->rollout_graph, rollout);
	m->source_recomputes = job_source_recomputes(&source);
	m->source_float64 = job_source_is_float64(&source);
	if (m->request_stack != MT_NO_STACK) {
		m->source_computes = job_source_computes(&source, m->request_stack);
		m->source_trains = loops_call_leads_to_backward(&source, m->request_stack);
		m->source_evaluates = !job_source_asks_gradients(&source, m->request_stack);
		m->source_no_grad = job_source_is_no_grad(&source, m->request_stack);
		m->source_last = job_source_takes_last(&source, m->request_stack);
	}
	if (m->doubled)
		m->source_doubles = job_source_doubles(&source, m->doubled_stack);
	if (m->setup_line)
		m->source_masks = job_source_masks(&source, m->setup_stack);
	m->source_states = job_source_states(&source);
	m->source_infers = job_source_infers(&source);
	job_source_end(&source);
}

void metrics_remove_by_source(struct metrics_pass *p)
{
	struct job_source source;

	job_source_begin(&source, p->tables, p->trace->header.start_realtime_ns);
	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->tags[i] & TAGGED(MODEL))
			p->removed_by[i] |=
				(uint16_t)(COUNTERFACTUAL(UNOPTIMIZED,
							  job_source_is_unoptimized(&source, i)) |
					   COUNTERFACTUAL(GENERATED,
							  job_source_is_generated(&source, i)) |
					   COUNTERFACTUAL(ROLLOUT,
							  job_source_is_rollout(&source, i)));
	job_source_end(&source);
}

/* Is the outermost forward() the job's own? */
static int is_own_root(const struct tables *t, uint32_t stack)
{
	const struct mt_frame *root = metrics_root_of(t, stack);
	struct str file = root ? tables_string(t, root->file) : (struct str){ 0 };

	return root && !str_matches(file, "*/site-packages/*") &&
	       !str_matches(file, "*/dist-packages/*");
}

/* What the picture tower of CLIP or the like keeps that a model of the job's own calls, which most
 * often trains what comes behind it. */
static bytes picture_tower(const struct metrics_pass *p, const struct snapshot *live)
{
	for (size_t i = 0; i < live->count; i++)
		if (tags_at(p, live->groups[i].stack) & TAGGED(TOWER) &&
		    !is_own_root(p->tables, live->groups[i].stack))
			return 0;
	return graph_of(p, live, TAGGED(MODEL) | TAGGED(TOWER));
}

/*
 * What the first of several models keeps: of models that were moved to the device, the only one
 * that was called yet, or the one of the earlier of two calls, if only one class was called, as
 * teacher and student may be of (by the name of a distillation, the larger one's); or an encoder of
 * latents, or of pictures.
 */
static bytes first_model(const struct metrics_pass *p, const struct device_pass *d,
			 const struct snapshot *live)
{
	const struct metrics *m = d->m;
	bytes encoder = larger_of(latent_encoder(p, live), picture_tower(p, live));
	bytes all = graph_of(p, live, TAGGED(MODEL));

	if (m->moved_models >= 2 && !d->called_untrained &&
	    d->pending.count + d->trained.count == 1)
		return live->by_category[CATEGORY_ACTIVATIONS];
	if (m->roots != 1 || !m->again_was_new || !m->again_is_new || m->again_freed)
		return encoder;
	if (all && graph_of(p, live, TAGGED(MODEL) | TAGGED(DISTILS)) == all)
		return larger_of(m->again, all - m->again);
	return m->moved_models >= 2 ? m->again : encoder;
}

/*
 * batch_norm() allocates its output, and behind that, in training mode, the mean and the deviation
 * of each channel, which are small. A graph has its input, which the line before made.
 */
void metrics_note_mode(struct device_pass *d, bytes size, stack_tags tags)
{
	if (d->after_norm && (size < METRICS_MIN_BLOCK || tags & TAGGED(BATCH_NORM)))
		d->norms_trained++;
	else if (d->after_norm)
		d->norms_evaluated++;
	d->after_norm = size >= METRICS_MIN_BLOCK && tags & TAGGED(BATCH_NORM);
	if (d->after_norm)
		d->normed_stack = d->latest_stack;
}

/* Live blocks of a model that drops outputs in training, by a line that several layers run: the
 * first of them are through. Compiled code drops without a line of its own. */
static int is_behind_a_layer(const struct block_group *g, stack_tags tags)
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
		stack_tags tags = tags_at(p, g->stack);

		if (g->category != CATEGORY_ACTIVATIONS)
			continue;
		has_norm |= tags & TAGGED(BATCH_NORM) ||
			    (d->normed_stack && g->stack == d->normed_stack);
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

/* Has another stack with these tags made a block? */
static int has_other_stack(const struct metrics_pass *p, const struct device_pass *d,
			   uint32_t stack, stack_tags tags)
{
	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (i != stack && (p->tags[i] & tags) == tags && d->stacks[i].blocks)
			return 1;
	return 0;
}

/* What a teacher keeps, by its name. If all of it is of one line, and other lines have made blocks,
 * too, which are gone, it is no graph, but the features of its stages, which it returns. */
static bytes teacher_graph(const struct metrics_pass *p, const struct device_pass *d,
			   const struct snapshot *live)
{
	const stack_tags teacher = TAGGED(MODEL) | TAGGED(UNTRAINED);
	bytes all = graph_of(p, live, teacher);

	for (size_t i = 0; all && i < live->count; i++) {
		const struct block_group *g = &live->groups[i];

		if (may_be_of_graph(p, g, teacher) && g->bytes == all)
			return has_other_stack(p, d, g->stack, teacher) ? 0 : all;
	}
	return all;
}

void metrics_find_models(const struct metrics_pass *p, const struct device_pass *d,
			 const struct snapshot *live)
{
	d->m->evaluation_mode = evaluates(p, d, live);
	find_buffers(d->m, live);
	d->m->roots = metrics_count_roots(p, live);
	d->m->moved_models = count_moved(p->tables, live);
	d->m->loss_network = loss_network(p, d, live);
	d->m->first_model = first_model(p, d, live);
	d->m->teacher_graph = teacher_graph(p, d, live);
	d->m->rollout_graph = graph_of(p, live, TAGGED(MODEL) | TAGGED(ROLLOUT));
	find_by_source(p, d->m, live);
}
