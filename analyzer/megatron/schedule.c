/* The order of a rank's forward and backward passes (pipeline_parallel/schedules.py). */
#include "megatron/schedule.h"

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

	return ahead < total ? ahead : total;
}

int64_t schedule_group(const struct hparams *s)
{
	return s->group < s->microbatches ? s->group : s->microbatches;
}

/* Two groups, and the smaller last one, which an interleaved schedule orders differently. */
int64_t batches_run(const struct hparams *s)
{
	int64_t group = schedule_group(s), most = 2 * group;

	if (s->vpp > 1)
		most += s->microbatches % group;
	return s->microbatches < most ? s->microbatches : most;
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
