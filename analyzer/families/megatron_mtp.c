/* megatron/core/transformer/multi_token_prediction.py, and what GPTModel does with it. */
#include "families/megatron_mtp.h"

#include <stdlib.h>

#include "util/util.h"

struct mtp_layer {
	struct norm_weights embedding_norm, hidden_norm, norm;
	struct param *eh_proj;
	struct mlayer layer;
};

/* A layer is of the last one's kind. Its products are in fp8 also where the ends are not. */
void mtp_declare(struct chunk *c)
{
	const struct shape *s = c->rank->s;
	size_t from;

	c->mtp = xcalloc((size_t)c->mtp_count, sizeof(*c->mtp));
	for (int64_t i = 0; i < c->mtp_count; i++) {
		struct mtp_layer *l = &c->mtp[i];

		l->embedding_norm = declare_norm(c, s->hidden);
		l->hidden_norm = declare_norm(c, s->hidden);
		l->eh_proj = declare(c, TERM_OTHER_WEIGHTS, s->hidden / s->tp, 2 * s->hidden, 0);
		from = c->module.count;
		declare_layer(c, &l->layer, s->layers - 1);
		if (s->fp8)
			quantize_layer(c, from);
		l->eh_proj->quantized = s->fp8;
		l->norm = declare_norm(c, s->hidden);
	}
}

struct mlayer *chunk_layer(const struct chunk *c, int64_t i)
{
	return i < c->layer_count ? &c->layers[i] : &c->mtp[i - c->layer_count].layer;
}

void mtp_release(struct chunk *c)
{
	for (int64_t i = 0; i < c->mtp_count && c->mtp; i++)
		free(c->mtp[i].layer.experts);
	free(c->mtp);
}

/* roll_tensor(): each token's follower */
static tensor rolled(struct machine *m, tensor x)
{
	return make(m, x.n, x.type);
}

/* gather_from_tensor_model_parallel_region: columns of all ranks */
static void gathered_backward(struct machine *m, struct node *n)
{
	n->out[0] = make(m, n->in[0].n / n->sizes[0], n->in[0].type);
}

static tensor gathered(struct machine *m, struct rank *r, tensor x)
{
	struct node *n;
	tensor all, out;

	if (r->s->tp == 1)
		return hold(x);
	n = record(m, gathered_backward, &x, 1);
	if (n)
		n->sizes[0] = r->s->tp;
	all = make_as(m, TERM_COLLECTIVE, x.n * r->s->tp, x.type);
	out = make(m, all.n, x.type);
	drop(m, &all);
	return result(out, n, 0);
}

/* scatter_to_sequence_parallel_region: a view, which keeps all tokens */
static void part_backward(struct machine *m, struct node *n)
{
	n->out[0] = make_as(m, TERM_COLLECTIVE, n->in[0].n * n->sizes[0], n->in[0].type);
}

static tensor part(struct machine *m, struct rank *r, tensor x)
{
	struct node *n;
	tensor out;

	if (!r->s->sequence_parallel)
		return hold(x);
	n = record(m, part_backward, &x, 1);
	if (n)
		n->sizes[0] = r->s->tp;
	out = result(hold(x), n, 0);
	out.n = x.n / r->s->tp;
	return out;
}

struct call {
	struct mtp_layer *layer;
	struct microbatch *batch;
};

/* _proj_and_transformer_layer. in: hidden states, embedded tokens */
static tensor predict(struct machine *m, void *context, const tensor *in)
{
	struct call *call = context;
	struct mtp_layer *l = call->layer;
	struct rank *r = l->layer.chunk->rank;
	tensor embedded, x, both;

	m->as = TERM_ATTN_NORM;
	embedded = normed(m, r, &l->embedding_norm, in[1]);
	let(m, &embedded, copied_back(m, embedded)); /* a gradient of columns is copied */
	x = normed(m, r, &l->hidden_norm, in[0]);
	let(m, &x, copied_back(m, x));
	both = cat(m, embedded, x);
	m->as = TERM_EMBEDDED;
	let(m, &x, mlinear(m, r, both, l->eh_proj, NULL, 1));
	drop(m, &both);
	let(m, &x, gathered(m, r, x));
	let(m, &x, part(m, r, x));
	drop(m, &embedded);
	let(m, &x, layer_forward(m, &l->layer, call->batch, x));
	m->as = TERM_FINAL_NORM;
	let(m, &x, normed(m, r, &l->norm, x));
	return x;
}

static void stacked_backward(struct machine *m, struct node *n)
{
	(void)m;
	for (int64_t i = 0; i < n->sizes[0]; i++) {
		n->out[i] = hold(n->in[0]);
		n->out[i].n = n->sizes[1];
		n->out[i].view = 1;
	}
}

/* torch.cat over tokens: gradients are views of one */
static tensor stacked(struct machine *m, const tensor *in, int64_t count)
{
	struct node *n = record(m, stacked_backward, in, (int)count);

	if (n) {
		n->sizes[0] = count;
		n->sizes[1] = in[0].n;
	}
	return result(make(m, in[0].n * count, in[0].type), n, 0);
}

/* MultiTokenPredictionBlock.forward: hidden states of all predictions, one after the other */
static tensor predictions(struct machine *m, struct chunk *c, struct microbatch *b, tensor x)
{
	struct microbatch further = *b;
	tensor list[MOST_MTP + 1], in[2], out;

	split(m, x, list, &x.n, 1);
	further.tokens = hold(b->tokens);
	further.positions = hold(b->positions);
	for (int64_t i = 0; i < c->mtp_count; i++) {
		struct call call = { &c->mtp[i], b };

		m->as = TERM_INPUTS;
		let(m, &further.tokens, rolled(m, further.tokens));
		let(m, &further.positions, rolled(m, further.positions));
		in[0] = list[i];
		in[1] = chunk_embed(m, c, &further);
		list[i + 1] = maybe_recomputed(m, &call.layer->layer, predict, &call, sizeof(call),
					       in, 2);
		drop(m, &in[1]);
	}
	m->as = TERM_FINAL_NORM;
	out = stacked(m, list, c->mtp_count + 1);
	for (int64_t i = 0; i <= c->mtp_count; i++)
		drop(m, &list[i]);
	drop(m, &further.tokens);
	drop(m, &further.positions);
	return out;
}

/* MTPLossAutoScaler: the gradient passes, and the loss gets one of its own. */
static void scaler_backward(struct machine *m, struct node *n)
{
	tensor ones = make(m, n->saved[0].n, F32);

	n->out[0] = hold(n->in[0]);
	n->out[1] = make(m, ones.n, F32);
	drop(m, &ones);
}

static tensor with_loss(struct machine *m, tensor x, tensor losses)
{
	tensor in[2] = { x, losses };
	struct node *n = record(m, scaler_backward, in, 2);

	save(m, n, losses);
	return result(hold(x), n, 0);
}

/* mtp_loss_tracker's sums, and the scale of the losses */
static void keep_numbers(struct machine *m, struct rank *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->mtp_numbers); i++)
		if (!r->mtp_numbers[i].at)
			r->mtp_numbers[i] = make_as(m, TERM_OTHER, 1, F32);
}

/* One loss a token, by the tokens that count: kept are the mask and what is scaled. */
static tensor masked_losses(struct machine *m, tensor losses, tensor mask)
{
	tensor out = mul(m, mask, losses);

	let(m, &out, scale(m, out));
	let(m, &out, scale(m, out));
	return out;
}

tensor mtp_forward(struct machine *m, struct chunk *c, struct microbatch *b, tensor x)
{
	struct rank *r = c->rank;
	tensor all = predictions(m, c, b, x), part[MOST_MTP + 1], labels, mask, losses, out;
	int64_t sizes[MOST_MTP + 1];

	for (int64_t i = 0; i <= c->mtp_count; i++)
		sizes[i] = x.n;
	split(m, all, part, sizes, (int)c->mtp_count + 1);
	drop(m, &all);
	labels = make_as(m, TERM_LOSS, r->rows, I64);
	mask = b->weights.at ? hold(b->weights) : make_as(m, TERM_LOSS, r->rows, I64);
	out = hold(part[0]);
	for (int64_t i = 1; i <= c->mtp_count; i++) {
		losses = token_losses(m, c, part[i], &b->logits);
		let(m, &labels, rolled(m, labels));
		let(m, &mask, rolled(m, mask));
		keep_numbers(m, r);
		let(m, &losses, masked_losses(m, losses, mask));
		let(m, &out, with_loss(m, out, losses));
		drop(m, &losses);
	}
	for (int64_t i = 0; i <= c->mtp_count; i++)
		drop(m, &part[i]);
	drop(m, &labels);
	drop(m, &mask);
	return out;
}
