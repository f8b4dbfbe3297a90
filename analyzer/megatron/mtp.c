/* Multi-token prediction (megatron/core/transformer/multi_token_prediction.py), and its use by
 * GPTModel. */
#include "megatron/mtp.h"
#include "megatron/embedding_loss.h"
#include "megatron/layers.h"
#include "megatron/declare.h"
#include "megatron/tensor_parallel.h"

#include <stdlib.h>
#include <string.h>

#include "patterns/hybrid_pattern.h"
#include "util/util.h"

struct mtp_layer {
	struct norm_weights embedding_norm, hidden_norm, norm;
	struct param *eh_proj;
	struct megatron_layer *parts; /* a transformer layer, or the layers of a hybrid model */
	int64_t count;
};

/* --mtp-use-repeated-layer: one layer predicts all further tokens. */
static int64_t layers_made(const struct model_chunk *c)
{
	return c->mtp_count > 1 && c->rank->s->mtp_repeated ? 1 : c->mtp_count;
}

static struct mtp_layer *prediction(const struct model_chunk *c, int64_t i)
{
	return &c->mtp[i % layers_made(c)];
}

/* The letters behind a slash of hybrid_layer_pattern; a GPT has another transformer layer. */
static void declare_parts(struct model_chunk *c, struct mtp_layer *l)
{
	const struct hparams *s = c->rank->s;
	const char *kinds = s->pattern ? hybrid_predictions(s->pattern) : "";

	l->count = s->pattern ? (int64_t)strcspn(kinds, "/") : 1;
	l->parts = xcalloc((size_t)l->count, sizeof(*l->parts));
	for (int64_t i = 0; i < l->count; i++)
		if (s->pattern)
			declare_hybrid_layer(c, &l->parts[i], kinds[i]);
		else
			declare_layer(c, &l->parts[i], s->layers - 1, 0);
}

/* A layer of multi-token prediction is like the last layer, but its products are in fp8 even if
 * those of the last layer are not. */
void mtp_declare(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;
	size_t from;

	c->mtp = xcalloc((size_t)c->mtp_count, sizeof(*c->mtp));
	for (int64_t i = 0; i < layers_made(c); i++) {
		struct mtp_layer *l = &c->mtp[i];

		l->embedding_norm = declare_norm(c, s->hidden);
		l->hidden_norm = declare_norm(c, s->hidden);
		l->eh_proj =
			declare_param(c, TERM_OTHER_WEIGHTS, s->hidden / s->tp, 2 * s->hidden, 0);
		from = c->module.count;
		declare_parts(c, l);
		if (s->fp8)
			quantize_layer(c, from);
		l->eh_proj->quantized = s->fp8;
		l->norm = declare_norm(c, s->hidden);
	}
}

struct megatron_layer *chunk_layer(const struct model_chunk *c, int64_t i)
{
	return i < c->layer_count ? &c->layers[i] : prediction(c, i - c->layer_count)->parts;
}

void mtp_release(struct model_chunk *c)
{
	for (int64_t i = 0; i < c->mtp_count && c->mtp; i++) {
		for (int64_t k = 0; k < c->mtp[i].count; k++)
			free(c->mtp[i].parts[k].experts);
		free(c->mtp[i].parts);
	}
	free(c->mtp);
}

/* roll_tensor(): the next token of each token. */
static tensor rolled(struct machine *m, tensor x)
{
	return tensor_new(m, x.n, x.type);
}

/* gather_from_tensor_model_parallel_region: the columns of all ranks. */
static void gathered_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new(m, n->in[0].n / n->sizes[0], n->in[0].type);
}

static tensor gathered(struct machine *m, struct megatron_rank *r, tensor x)
{
	struct grad_node *n;
	tensor all, out;

	if (r->s->tp == 1)
		return tensor_ref(x);
	n = grad_node_new(m, gathered_backward, &x, 1);
	if (n)
		n->sizes[0] = r->s->tp;
	all = tensor_new_as(m, TERM_COLLECTIVE, x.n * r->s->tp, x.type);
	out = tensor_new(m, all.n, x.type);
	tensor_unref(m, &all);
	return with_grad_fn(out, n, 0);
}

/* scatter_to_sequence_parallel_region: a view, so that all tokens stay allocated. */
static void part_backward(struct machine *m, struct grad_node *n)
{
	n->out[0] = tensor_new_as(m, TERM_COLLECTIVE, n->in[0].n * n->sizes[0], n->in[0].type);
}

static tensor part(struct machine *m, struct megatron_rank *r, tensor x)
{
	struct grad_node *n;
	tensor out;

	if (!r->s->sequence_parallel)
		return tensor_ref(x);
	n = grad_node_new(m, part_backward, &x, 1);
	if (n)
		n->sizes[0] = r->s->tp;
	out = with_grad_fn(tensor_ref(x), n, 0);
	out.n = x.n / r->s->tp;
	return out;
}

struct call {
	struct mtp_layer *layer;
	struct microbatch *batch;
};

/* _concat_embeddings(): the input of the layer's parts. */
static tensor joined(struct machine *m, struct mtp_layer *l, tensor hidden, tensor tokens)
{
	struct megatron_rank *r = l->parts->chunk->rank;
	tensor embedded, x, both;

	m->current_term = TERM_ATTN_NORM;
	embedded = hidden_norm(m, r, &l->embedding_norm, tokens);
	tensor_assign(m, &embedded,
		      copied_back(m, embedded)); /* the gradient of columns is copied */
	x = hidden_norm(m, r, &l->hidden_norm, hidden);
	tensor_assign(m, &x, copied_back(m, x));
	both = cat(m, embedded, x);
	m->current_term = TERM_EMBEDDED;
	tensor_assign(m, &x, parallel_linear(m, r, both, l->eh_proj, NULL, 1));
	tensor_unref(m, &both);
	tensor_assign(m, &x, gathered(m, r, x));
	tensor_assign(m, &x, part(m, r, x));
	tensor_unref(m, &embedded);
	return x;
}

static tensor final_norm(struct machine *m, struct mtp_layer *l, tensor x)
{
	m->current_term = TERM_FINAL_NORM;
	return hidden_norm(m, l->parts->chunk->rank, &l->norm, x);
}

/* _proj_and_transformer_layer. `in`: hidden states, embedded tokens. */
static tensor predict(struct machine *m, void *context, const tensor *in)
{
	struct call *call = context;
	struct mtp_layer *l = call->layer;
	tensor x = joined(m, l, in[0], in[1]);

	for (int64_t i = 0; i < l->count; i++)
		tensor_assign(m, &x, layer_forward(m, &l->parts[i], call->batch, x));
	tensor_assign(m, &x, final_norm(m, l, x));
	return x;
}

static void stacked_backward(struct machine *m, struct grad_node *n)
{
	(void)m;
	for (int64_t i = 0; i < n->sizes[0]; i++) {
		n->out[i] = tensor_ref(n->in[0]);
		n->out[i].n = n->sizes[1];
		n->out[i].view = 1;
	}
}

/* torch.cat over tokens: the gradients are views of one tensor. */
static tensor stacked(struct machine *m, const tensor *in, int64_t count)
{
	struct grad_node *n = grad_node_new(m, stacked_backward, in, (int)count);

	if (n) {
		n->sizes[0] = count;
		n->sizes[1] = in[0].n;
	}
	return with_grad_fn(tensor_new(m, in[0].n * count, in[0].type), n, 0);
}

static void roll_inputs(struct machine *m, struct microbatch *b)
{
	m->current_term = TERM_INPUTS;
	tensor_assign(m, &b->tokens, rolled(m, b->tokens));
	tensor_assign(m, &b->positions, rolled(m, b->positions));
}

tensor mtp_enter(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x)
{
	tensor tokens, out;

	roll_inputs(m, b);
	tokens = chunk_embed(m, c, b);
	out = joined(m, prediction(c, 0), x, tokens);
	tensor_unref(m, &tokens);
	return out;
}

tensor mtp_leave(struct machine *m, struct model_chunk *c, tensor before, tensor x)
{
	tensor list[2] = { before, final_norm(m, prediction(c, 0), x) }, out;

	out = stacked(m, list, 2);
	tensor_unref(m, &list[1]);
	return out;
}

/* MultiTokenPredictionBlock.forward: the hidden states of all predictions, one after the other. */
static tensor predictions(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x)
{
	const struct hparams *s = c->rank->s;
	/* MultiTokenPredictionLayer._checkpointed_forward() skips --recompute-method block */
	int again = s->recompute == RECOMPUTE_FULL && !s->recompute_block;
	struct microbatch further = *b;
	tensor list[MAX_MTP + 1], in[2], out;

	split(m, x, list, &x.n, 1);
	further.tokens = tensor_ref(b->tokens);
	further.positions = tensor_ref(b->positions);
	for (int64_t i = 0; i < c->mtp_count; i++) {
		struct call call = { prediction(c, i), b };
		struct layer_run part = { call.layer->parts, predict, &call, sizeof(call) };

		roll_inputs(m, &further);
		in[0] = list[i];
		in[1] = chunk_embed(m, c, &further);
		list[i + 1] = maybe_recomputed(m, again, &part, in, 2);
		tensor_unref(m, &in[1]);
	}
	m->current_term = TERM_FINAL_NORM;
	out = stacked(m, list, c->mtp_count + 1);
	for (int64_t i = 0; i <= c->mtp_count; i++)
		tensor_unref(m, &list[i]);
	tensor_unref(m, &further.tokens);
	tensor_unref(m, &further.positions);
	return out;
}

/* MTPLossAutoScaler passes the gradient on and adds a gradient for the loss. */
static void scaler_backward(struct machine *m, struct grad_node *n)
{
	tensor ones = tensor_new(m, n->saved[0].n, F32);

	n->out[0] = tensor_ref(n->in[0]);
	n->out[1] = tensor_new(m, ones.n, F32);
	tensor_unref(m, &ones);
}

static tensor with_loss(struct machine *m, tensor x, tensor losses)
{
	tensor in[2] = { x, losses };
	struct grad_node *n = grad_node_new(m, scaler_backward, in, 2);

	save_for_backward(m, n, losses);
	return with_grad_fn(tensor_ref(x), n, 0);
}

/* The sums of mtp_loss_tracker, and the scale of the losses. */
static void keep_numbers(struct machine *m, struct megatron_rank *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->mtp_numbers); i++)
		if (!r->mtp_numbers[i].storage)
			r->mtp_numbers[i] = tensor_new_as(m, TERM_OTHER, 1, F32);
}

/* One loss for each token, times the mask of tokens that count; the mask and the scaled losses are
 * saved. */
static tensor masked_losses(struct machine *m, tensor losses, tensor mask)
{
	tensor out = mul(m, mask, losses);

	tensor_assign(m, &out, scale(m, out));
	tensor_assign(m, &out, scale(m, out));
	return out;
}

tensor mtp_losses(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor *all)
{
	struct megatron_rank *r = c->rank;
	tensor part[MAX_MTP + 1], labels, mask, losses, out;
	int64_t sizes[MAX_MTP + 1];

	for (int64_t i = 0; i <= c->mtp_count; i++)
		sizes[i] = all->n / (c->mtp_count + 1);
	split(m, *all, part, sizes, (int)c->mtp_count + 1);
	tensor_unref(m, all);
	labels = tensor_new_as(m, TERM_LOSS, r->rows, I64);
	mask = b->weights.storage ? tensor_ref(b->weights)
				  : tensor_new_as(m, TERM_LOSS, r->rows, I64);
	out = tensor_ref(part[0]);
	for (int64_t i = 1; i <= c->mtp_count; i++) {
		losses = token_losses(m, c, part[i], &b->logits);
		tensor_assign(m, &labels, rolled(m, labels));
		tensor_assign(m, &mask, rolled(m, mask));
		keep_numbers(m, r);
		tensor_assign(m, &losses, masked_losses(m, losses, mask));
		tensor_assign(m, &out, with_loss(m, out, losses));
		tensor_unref(m, &losses);
	}
	for (int64_t i = 0; i <= c->mtp_count; i++)
		tensor_unref(m, &part[i]);
	tensor_unref(m, &labels);
	tensor_unref(m, &mask);
	return out;
}

tensor mtp_forward(struct machine *m, struct model_chunk *c, struct microbatch *b, tensor x)
{
	tensor all = predictions(m, c, b, x);

	return mtp_losses(m, c, b, &all);
}
