/* The order of a rank's forward and backward passes (pipeline_parallel/schedules.py). */
#include "megatron/schedule.h"

#include "megatron/mtp.h"

#include <stdlib.h>

#include "util/util.h"

/* get_schedule_table(): each group of micro-batches goes through all chunks; the last group may be
 * smaller. */
struct pipeline_step schedule_step(const struct megatron_rank *r, int64_t i, int forward)
{
	int64_t round = r->group * r->s->vpp;
	int64_t first = i / round * r->group, left = r->microbatches - first;
	int64_t size = left < r->group ? left : r->group, chunk = i % round / size;

	return (struct pipeline_step){ forward ? chunk : r->s->vpp - 1 - chunk,
				       first + i % round % size };
}

int64_t schedule_ahead(const struct megatron_rank *r)
{
	const struct hparams *s = r->s;
	int64_t total = r->microbatches * s->vpp;
	int64_t ahead = (s->pp - r->stage - 1) * (s->vpp > 1 ? 2 : 1) + (s->vpp - 1) * s->group;

	/* the experts of one more forward pass run beside a backward pass */
	ahead += s->vpp > 1 && s->overlaps_experts;

	return ahead < total ? ahead : total;
}

int64_t schedule_group(const struct hparams *s)
{
	return s->group < s->microbatches ? s->group : s->microbatches;
}

#define MOST_BATCHES 512
#define FEW_BATCHES 8

/* A short schedule runs two micro-batches for each in flight, an interleaved one two groups, and
 * the smaller last one, which it orders differently. */
int64_t batches_run(const struct hparams *s, int64_t stage)
{
	int64_t group = schedule_group(s), in_flight = s->pp - stage;
	int64_t most = 2 * in_flight > MOST_BATCHES ? 2 * in_flight : MOST_BATCHES;

	if (s->vpp > 1)
		most = 2 * group + s->microbatches % group;
	else if (s->graphs.on)
		most = 2 * group;
	else if (s->short_schedule)
		most = 2 * in_flight > FEW_BATCHES ? 2 * in_flight : FEW_BATCHES;
	return s->microbatches < most ? s->microbatches : most;
}

void schedule_begin_round(struct machine *m)
{
	allocator_begin_round(m->allocator);
}

int64_t schedule_rounds_left(struct batch_rounds *r, const struct machine *m, int64_t left)
{
	uint64_t layout = allocator_layout(m->allocator, r->window);

	for (size_t i = r->count; i-- > 0;)
		if (r->layouts[i] == layout)
			return left % (int64_t)(r->count - i);
	r->layouts = grow(r->layouts, r->count, &r->room, sizeof(*r->layouts));
	r->layouts[r->count++] = layout;
	return left;
}

void schedule_rounds_release(struct batch_rounds *r)
{
	free(r->layouts);
	*r = (struct batch_rounds){ .window = r->window };
}

/* RotaryEmbedding.forward: its lru_cache keeps the result. The layers of latent attention have
 * their own (mla.c). */
void load_rotary(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	int64_t n = s->tokens * s->head;
	tensor half;

	if (!s->rope || s->latent.kv_rank)
		return;
	if (!c->rotary.storage) {
		half = tensor_new_as(m, TERM_ROPE, n / 2, F32);
		c->rotary = tensor_new_as(m, TERM_ROPE, n, F32);
		tensor_unref(m, &half);
	}
	b->rotary = tensor_ref(c->rotary);
}

/* ---- the layers of each chunk of the pipeline ---- */

/* The number of layers that are divided among the stages: embedding and loss may count as one. */
static int64_t divided_layers(const struct hparams *s)
{
	return s->layers + s->counts_embedding + s->counts_loss;
}

/* The layers of a stage without a layout. */
static int64_t stage_layers(const struct hparams *s, int64_t stage)
{
	int64_t even = s->pp - (s->first_layers > 0) - (s->last_layers > 0);

	if (stage == 0 && s->first_layers)
		return s->first_layers;
	if (stage == s->pp - 1 && s->last_layers)
		return s->last_layers;
	return even ? (divided_layers(s) - s->first_layers - s->last_layers) / even : 0;
}

static const struct stage_layers *declared(const struct hparams *s, int64_t stage, int64_t chunk)
{
	return &s->stages.at[chunk * s->pp + stage];
}

/* Consecutive chunks are on consecutive stages; the embedding may take a layer's place. */
int64_t chunk_first_layer(const struct hparams *s, int64_t stage, int64_t chunk)
{
	int64_t first = stage || chunk ? -s->counts_embedding : 0;

	if (s->stages.count)
		return declared(s, stage, chunk)->first;
	if (s->vpp > 1)
		return first + (chunk * s->pp + stage) * (stage_layers(s, stage) / s->vpp);
	for (int64_t i = 0; i < stage; i++)
		first += stage_layers(s, i);
	return first;
}

int64_t chunk_layers(const struct hparams *s, int64_t stage, int64_t chunk)
{
	int64_t layers;

	if (s->stages.count)
		return declared(s, stage, chunk)->layers;
	layers = stage_layers(s, stage) / s->vpp;
	if (!stage && !chunk)
		layers -= s->counts_embedding;
	if (stage == s->pp - 1 && chunk == s->vpp - 1)
		layers -= s->counts_loss;
	return layers;
}

int64_t chunk_mtp(const struct hparams *s, int64_t stage, int64_t chunk)
{
	if (s->stages.count)
		return declared(s, stage, chunk)->mtp;
	return stage == s->pp - 1 && chunk == s->vpp - 1 ? s->mtp : 0;
}

/* The other stages share the layers that uneven stages leave. */
static void check_ends(const struct hparams *s, struct inputs *in)
{
	int64_t others = s->pp - (s->first_layers > 0) - (s->last_layers > 0);
	int64_t left = s->layers - s->first_layers - s->last_layers;

	if (!s->first_layers && !s->last_layers)
		return;
	if (left < 0 || others < 0 || (others ? left % others : left))
		input_reject(in,
			     s->last_layers ? CONFIG_decoder_last_pipeline_num_layers
					    : CONFIG_decoder_first_pipeline_num_layers,
			     "one that leaves the other stages the same number of layers");
}

static void check_layout(const struct hparams *s, struct inputs *in)
{
	if (s->stages.at[s->stages.count - 1].mtp != s->mtp)
		input_reject(in, CONFIG_pipeline_model_parallel_layout,
			     "the layers of multi-token prediction (m) in the loss's stage (L)");
	if (s->stages.count != s->pp * s->vpp)
		input_reject(in, CONFIG_pipeline_model_parallel_layout,
			     "as many stages as pipeline and virtual pipeline have");
}

void check_stages(const struct hparams *s, struct inputs *in)
{
	char expected[32];

	snprintf(expected, sizeof(expected), "%d at most", MAX_MTP);
	if (s->mtp > MAX_MTP)
		input_reject(in, CONFIG_mtp_num_layers, expected);
	if (s->vpp > 1 && s->pp == 1)
		input_reject(in, CONFIG_virtual_pipeline_model_parallel_size,
			     "1 without pipeline parallelism: Megatron-LM refuses more");
	if (s->stages.count) {
		check_layout(s, in);
		return;
	}
	check_ends(s, in);
	if (!s->first_layers && !s->last_layers && divided_layers(s) % s->pp)
		input_reject(in, CONFIG_pipeline_model_parallel_size,
			     "one that divides the layers");
	if (chunk_layers(s, 0, 0) < 0 || chunk_layers(s, s->pp - 1, s->vpp - 1) < 0)
		input_reject(in, CONFIG_num_layers,
			     "as many as the chunks have beside the embedding and the loss");
	for (int64_t stage = 0; stage < s->pp; stage++)
		if (stage_layers(s, stage) % s->vpp)
			input_reject(in, CONFIG_virtual_pipeline_model_parallel_size,
				     "one that divides a stage's layers");
}

void check_interleaving(const struct hparams *s, struct inputs *in)
{
	enum config_field f =
		GIVEN(in->c, num_microbatches) ? CONFIG_num_microbatches : CONFIG_global_batch_size;
	int64_t rest = s->microbatches % s->group;

	if (s->vpp == 1)
		return;
	if (s->group < s->pp)
		input_reject(in, CONFIG_microbatch_group_size_per_virtual_pipeline_stage,
			     "at least pipeline_model_parallel_size");
	if (config_has(in->c, f) && (s->microbatches < s->group || (rest && rest < s->pp)))
		input_reject(
			in, f,
			"groups of pipeline_model_parallel_size micro-batches or of "
			"microbatch_group_size_per_virtual_pipeline_stage, and a rest of none or "
			"at least pipeline_model_parallel_size: Megatron-core refuses another");
}
