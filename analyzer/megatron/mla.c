/* Megatron-core's multi-latent attention: queries, keys and values are projected to a smaller width
 * first. */
#include "megatron/mla.h"
#include "megatron/declare.h"
#include "megatron/embedding_loss.h"
#include "megatron/tensor_parallel.h"

#include "megatron/transformer_engine.h"
#include "util/util.h"

static struct norm_weights declare_latent_norm(struct model_chunk *c, int64_t width)
{
	const struct hparams *s = c->rank->s;
	struct norm_weights n = { NULL, NULL };

	if (!s->qk_norm)
		return n;
	n.weight = declare_param(c, TERM_NORM_WEIGHTS, 1, width, !s->transformer_engine);
	if (s->norm_bias)
		n.bias = declare_param(c, TERM_NORM_WEIGHTS, 1, width, !s->transformer_engine);
	return n;
}

/* The projections to the smaller width are whole on every tensor-parallel rank. */
void mla_declare(struct model_chunk *c, struct megatron_layer *l)
{
	const struct megatron_rank *r = c->rank;
	const struct hparams *s = r->s;
	const struct latent *a = &s->latent;
	int64_t q = r->heads * s->head, kv = r->heads * (a->nope + a->value);

	l->proj = declare_param(c, TERM_ATTENTION_WEIGHTS, s->hidden, r->heads * a->value, 0);
	if (s->linear_bias)
		l->proj_bias = declare_param(c, TERM_ATTENTION_WEIGHTS, 1, s->hidden, 0);
	if (a->q_rank)
		l->q_down = declare_param(c, TERM_ATTENTION_WEIGHTS, a->q_rank, s->hidden, 0);
	if (a->q_rank)
		l->q_norm = declare_latent_norm(c, a->q_rank);
	l->qkv = declare_param(c, TERM_ATTENTION_WEIGHTS, q, a->q_rank ? a->q_rank : s->hidden, 0);
	l->kv_down = declare_param(c, TERM_ATTENTION_WEIGHTS, a->kv_rank + a->rope, s->hidden, 0);
	l->k_norm = declare_latent_norm(c, a->kv_rank);
	l->kv_up = declare_param(c, TERM_ATTENTION_WEIGHTS, kv, a->kv_rank, 0);
}

/* ---- rotary positions: yarn_rotary_pos_embedding.py ---- */

/* MLATransformerConfig.original_max_position_embeddings */
#define TABLE_ROWS 4096
/* lru_cache(maxsize=32) of forward(), for all layers together */
#define MAX_KEPT 32

static void make_tables(struct machine *m, struct latent_positions *p, int64_t n, enum dtype type)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->cached); i++)
		tensor_assign(m, &p->cached[i], tensor_new_as(m, TERM_ROPE, n, type));
}

void mla_make_positions(struct machine *m, struct megatron_layer *l)
{
	const struct latent *a = &l->chunk->rank->s->latent;
	struct latent_positions *p = &l->positions;

	if (p->frequencies[0].storage) /* one layer makes several predictions */
		return;
	/* yarn has inv_freq_extra and inv_freq_inter beside inv_freq */
	for (size_t i = 0; i < (a->yarn ? ARRAY_SIZE(p->frequencies) : 1); i++)
		p->frequencies[i] = tensor_new_as(m, TERM_ROPE, a->rope / 2, F32);
	if (a->yarn)
		make_tables(m, p, TABLE_ROWS * a->rope, F32);
}

void mla_convert_positions(struct machine *m, struct megatron_layer *l)
{
	const struct hparams *s = l->chunk->rank->s;

	if (s->latent.yarn && s->weights != l->positions.cached[0].type)
		make_tables(m, &l->positions, TABLE_ROWS * s->latent.rope, s->weights);
}

static int is_fused(const struct hparams *s)
{
	return s->rope && s->fused_rope && s->latent.yarn;
}

/* The first call computes the positions. The fused kernel reads tables in the hidden states' type,
 * which are made for it. */
static void load_positions(struct machine *m, struct megatron_layer *l)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct hparams *s = r->s;
	int fused = is_fused(s);
	int64_t n = s->tokens * s->latent.rope;
	tensor half, result;

	if (l->positions.result.storage || (fused && s->weights == F32))
		return;
	half = tensor_new_as(m, TERM_ROPE, n / 2, F32);
	result = tensor_new_as(m, TERM_ROPE, n, F32);
	tensor_unref(m, &half);
	if (fused)
		make_tables(m, &l->positions, n, s->weights);
	if (r->kept_positions < MAX_KEPT) {
		r->kept_positions++;
		l->positions.result = tensor_ref(result);
	}
	tensor_unref(m, &result);
}

/* ---- the forward pass ---- */

static tensor latent_norm(struct machine *m, struct megatron_rank *r, struct norm_weights *w,
			  tensor x, int64_t width)
{
	if (!w->weight)
		return tensor_ref(x);
	if (r->s->rms_norm)
		return fused_rms_norm(m, x, w->weight, width);
	return layer_norm(m, x, w->weight, w->bias, width);
}

/* Without the fused kernel: even and odd elements are moved to two halves, and rotated. */
static tensor rotated(struct machine *m, const struct hparams *s, tensor x)
{
	tensor even = slice(m, x, x.n / 2), odd = slice(m, x, x.n / 2), out = cat(m, even, odd);

	tensor_unref(m, &even);
	tensor_unref(m, &odd);
	tensor_assign(m, &out, apply_rotary(m, out, s->tokens / s->cp * s->latent.rope));
	return out;
}

/* The queries, whose part of a head with positions is rotated. Takes x. */
static tensor rotated_queries(struct machine *m, struct megatron_rank *r, tensor x)
{
	const struct latent *a = &r->s->latent;
	int64_t all = r->rows * r->heads, parts[2] = { all * a->nope, all * a->rope };
	tensor part[2], out;

	split(m, x, part, parts, 2);
	tensor_unref(m, &x);
	tensor_assign(m, &part[1], rotated(m, r->s, part[1]));
	out = cat(m, part[0], part[1]);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &part[i]);
	return out;
}

/* The projections to the whole width, and q, k and v for attention: new tensors, in which the
 * rotated parts follow the others. `in`: queries, keys and values of the smaller width, and the
 * keys' part with positions, which all heads share. */
static void widen(struct machine *m, void *context, const tensor *in, tensor *out)
{
	struct megatron_layer *l = *(struct megatron_layer **)context;
	struct megatron_rank *r = l->chunk->rank;
	const struct latent *a = &r->s->latent;
	int64_t all = r->rows * r->heads, parts[2] = { all * a->nope, all * a->value };
	int fused = is_fused(r->s);
	tensor whole, part[2], positions;

	out[0] = parallel_linear(m, r, in[0], l->qkv, NULL, 1);
	whole = parallel_linear(m, r, in[1], l->kv_up, NULL, 1);
	split(m, whole, part, parts, 2);
	tensor_unref(m, &whole);
	if (fused)
		tensor_assign(m, &out[0], contiguous(m, out[0]));
	else
		out[0] = rotated_queries(m, r, out[0]);
	positions = fused ? tensor_ref(in[2]) : rotated(m, r->s, in[2]);
	tensor_assign(m, &positions,
		      fused ? repeat(m, positions, all * a->rope)
			    : slice(m, positions, all * a->rope));
	out[1] = cat(m, part[0], positions);
	out[2] = contiguous(m, part[1]);
	tensor_unref(m, &positions);
	for (int i = 0; i < 2; i++)
		tensor_unref(m, &part[i]);
}

struct discarded *mla_project(struct machine *m, struct megatron_layer *l, tensor x, tensor *in)
{
	struct megatron_rank *r = l->chunk->rank;
	const struct latent *a = &r->s->latent;
	int64_t rows = x.n / r->s->hidden, sizes[2] = { rows * a->kv_rank, rows * a->rope };
	struct discarded_region region = { widen, &l, sizeof(struct megatron_layer *), 3, 3 };
	struct offload *o = offload_of(r, OFFLOAD_QKV);
	tensor narrow[3], whole, entered;
	struct discarded *d = NULL;

	load_positions(m, l);
	entered = offload_enter(m, o, OFFLOAD_QKV, x);
	m->current_term = TERM_ATTN_QKV;
	narrow[0] = l->q_down ? parallel_linear(m, r, entered, l->q_down, NULL, 0)
			      : tensor_ref(entered);
	whole = parallel_linear(m, r, entered, l->kv_down, NULL, 0);
	split(m, whole, &narrow[1], sizes, 2);
	tensor_unref(m, &whole);
	if (l->q_down)
		tensor_assign(m, &narrow[0], latent_norm(m, r, &l->q_norm, narrow[0], a->q_rank));
	tensor_assign(m, &narrow[1], latent_norm(m, r, &l->k_norm, narrow[1], a->kv_rank));
	if (r->s->recompute_latent)
		d = discardable(m, &region, narrow, in);
	else
		widen(m, &l, narrow, in);
	offload_leave(m, o);
	offload_commit(m, o, OFFLOAD_QKV, &in[0], &entered, 1);
	tensor_unref(m, &entered);
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &narrow[i]);
	return d;
}
