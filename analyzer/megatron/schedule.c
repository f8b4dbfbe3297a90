/* The order of a rank's forward and backward passes (pipeline_parallel/schedules.py). */
#include "megatron/schedule.h"

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

/* RotaryEmbedding.forward: its lru_cache keeps the result; that of latent attention is computed
 * each time. */
void load_rotary(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	int64_t n = s->tokens * s->head;
	tensor half;

	if (!s->rope)
		return;
	if (!c->rotary.storage) {
		half = tensor_new_as(m, TERM_ROPE, n / 2, F32);
		c->rotary = tensor_new_as(m, TERM_ROPE, n, F32);
		tensor_unref(m, &half);
	}
	b->rotary = tensor_ref(c->rotary);
	if (s->latent.kv_rank)
		tensor_unref(m, &c->rotary);
}
