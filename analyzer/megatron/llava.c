/* megatron/core/models/multimodal/llava_model.py, megatron/core/models/vision, pretrain_vlm.py;
 * megatron/core/models/mimo, examples/mimo with the provider llava_vlm */
#include "megatron/llava.h"

#include <stdlib.h>

#include "megatron/compiled.h"
#include "megatron/declare.h"
#include "megatron/embedding_loss.h"
#include "megatron/layers.h"
#include "megatron/tensor_parallel.h"
#include "util/util.h"

/* ---- parameters ---- */

/* The parameters from number `from` on belong to one part of the model. */
static void set_part(struct model_chunk *c, size_t from, enum term_id term, int frozen)
{
	for (size_t i = from; i < c->module.count; i++) {
		c->module.params[i]->term = term;
		c->module.params[i]->frozen = frozen;
	}
}

static void declare_encoder(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;
	struct vision_encoder *v = &c->vision;
	const int64_t pixels = 3 * s->vision.patch * s->vision.patch;

	v->class_token = declare_param(c, TERM_VISION_WEIGHTS, 1, s->hidden, ON_HOST_NARROW);
	v->norm = declare_norm(c, s->hidden);
	v->patches = declare_param(c, TERM_VISION_WEIGHTS, s->hidden, pixels, ON_HOST);
	v->positions = declare_param(c, TERM_VISION_WEIGHTS, s->vision.patches + 1, s->hidden,
				     ON_HOST_NARROW);
	v->layers = xcalloc((size_t)s->vision.layers, sizeof(*v->layers));
	for (int64_t i = 0; i < s->vision.layers; i++) {
		v->layers[i].in_encoder = v->layers[i].of_images = 1;
		declare_layer(c, &v->layers[i], i, 0);
	}
}

void llava_declare_images(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;
	size_t from = c->module.count;

	declare_encoder(c);
	set_part(c, from, TERM_VISION_WEIGHTS, s->vision.frozen);
	from = c->module.count;
	c->vision.projector = xcalloc(1, sizeof(*c->vision.projector));
	declare_feed_forward(c, c->vision.projector);
	set_part(c, from, TERM_PROJECTOR_WEIGHTS, 0);
}

void llava_number_positions(struct machine *m, struct model_chunk *c)
{
	if (c->vision.patches)
		c->vision.numbers =
			tensor_new_as(m, TERM_BUFFERS, c->rank->s->vision.patches + 1, I64);
}

void llava_release(struct model_chunk *c)
{
	free(c->vision.layers);
	free(c->vision.clip);
	free(c->vision.projector);
}

/* ---- examples/mimo: parameters ---- */

/* openai/clip-vit-large-patch14-336 */
enum { CLIP_WIDTH = 1024, CLIP_FFN = 4096, CLIP_PATCH = 14, CLIP_HEADS = 16 };

struct clip_linear {
	struct param *weight, *bias;
};

struct clip_layer {
	struct clip_linear q, k, v, out, norm, up, down, other_norm;
};

/* All weights are in fp32 first, as transformers and TransformerConfig make them. */
static struct clip_linear declare_pair(struct model_chunk *c, int64_t out, int64_t in)
{
	struct param *weight = declare_param(c, TERM_VISION_WEIGHTS, out, in, ON_HOST);

	return (struct clip_linear){ weight,
				     declare_param(c, TERM_VISION_WEIGHTS, 1, out, ON_HOST) };
}

static struct clip_linear declare_clip_norm(struct model_chunk *c)
{
	struct param *weight = declare_param(c, TERM_VISION_WEIGHTS, 1, CLIP_WIDTH, ON_HOST);

	return (struct clip_linear){ weight, declare_param(c, TERM_VISION_WEIGHTS, 1, CLIP_WIDTH,
							   ON_HOST) };
}

static void declare_clip_layer(struct model_chunk *c, struct clip_layer *l)
{
	l->k = declare_pair(c, CLIP_WIDTH, CLIP_WIDTH);
	l->v = declare_pair(c, CLIP_WIDTH, CLIP_WIDTH);
	l->q = declare_pair(c, CLIP_WIDTH, CLIP_WIDTH);
	l->out = declare_pair(c, CLIP_WIDTH, CLIP_WIDTH);
	l->norm = declare_clip_norm(c);
	l->up = declare_pair(c, CLIP_FFN, CLIP_WIDTH);
	l->down = declare_pair(c, CLIP_WIDTH, CLIP_FFN);
	l->other_norm = declare_clip_norm(c);
}

static void declare_projector(struct model_chunk *c, struct megatron_layer *l)
{
	const int64_t h = c->rank->s->hidden;
	struct clip_linear up, down;

	l->chunk = c;
	up = declare_pair(c, CLIP_FFN, CLIP_WIDTH);
	down = declare_pair(c, h, CLIP_FFN);
	l->up = up.weight;
	l->up_bias = up.bias;
	l->down = down.weight;
	l->down_bias = down.bias;
	for (size_t i = c->module.count - 4; i < c->module.count; i++)
		c->module.params[i]->term = TERM_PROJECTOR_WEIGHTS;
}

void mimo_declare_images(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;
	const int64_t pixels = 3 * CLIP_PATCH * CLIP_PATCH;
	struct vision_encoder *v = &c->vision;
	struct clip_linear norm;

	v->class_token = declare_param(c, TERM_VISION_WEIGHTS, 1, CLIP_WIDTH, ON_HOST);
	v->patches = declare_param(c, TERM_VISION_WEIGHTS, CLIP_WIDTH, pixels, ON_HOST);
	v->positions =
		declare_param(c, TERM_VISION_WEIGHTS, s->vision.patches + 1, CLIP_WIDTH, ON_HOST);
	norm = declare_clip_norm(c);
	v->norm = (struct norm_weights){ norm.weight, norm.bias };
	v->clip = xcalloc((size_t)s->vision.layers, sizeof(*v->clip));
	for (int64_t i = 0; i < s->vision.layers; i++)
		declare_clip_layer(c, &v->clip[i]);
	declare_clip_norm(c); /* of the pooled output */
	set_part(c, 0, TERM_VISION_WEIGHTS, 1);
	v->projector = xcalloc(1, sizeof(*v->projector));
	declare_projector(c, v->projector);
}

/* ---- a micro-batch ---- */

/* broadcast_data() has tokens, positions and labels in one tensor, images and the loss mask in
 * another. Float16Module converts the first stage's. */
void llava_batch(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	int64_t text = s->batch * (s->vision.by_transformers ? s->tokens : s->vision.text);
	int64_t pixels = 3 * s->batch * s->vision.pixels;
	tensor whole = tensor_new_as(m, TERM_INPUTS, 3 * text, I64), other;

	b->tokens = tensor_part(whole, text);
	b->positions = tensor_part(whole, text);
	b->labels = tensor_part(whole, text);
	tensor_unref(m, &whole);
	other = tensor_new_as(m, TERM_INPUTS, pixels + text, F32);
	b->image.pixels = tensor_part(other, pixels);
	b->weights = tensor_part(other, text);
	tensor_unref(m, &other);
}

/* ---- images ---- */

static tensor embed_patches(struct machine *m, struct model_chunk *c, tensor images)
{
	const struct hparams *s = c->rank->s;
	const struct vision_encoder *v = &c->vision;
	int64_t h = s->hidden, patches = s->batch * s->vision.patches * h;
	tensor x = conv2d(m, images, v->patches, NULL, patches), positions;
	tensor first = slice(m, v->class_token->value, s->batch * h);

	tensor_assign(m, &x, cat(m, first, x));
	tensor_unref(m, &first);
	positions = embedding(m, v->numbers, v->positions, h);
	tensor_assign(m, &x, add(m, x, positions));
	tensor_unref(m, &positions);
	tensor_assign(m, &x, hidden_norm(m, c->rank, &c->vision.norm, x));
	return x;
}

/* [batch, tokens, width] to [tokens, batch, width], or back */
static void transpose(struct machine *m, const struct hparams *s, tensor *x)
{
	if (s->batch > 1)
		tensor_assign(m, x, contiguous(m, *x));
}

static tensor one_layer(struct machine *m, void *context, const tensor *in)
{
	struct microbatch without_mask = { .output = none };

	return layer_forward(m, *(struct megatron_layer **)context, &without_mask, in[0]);
}

static tensor encode(struct machine *m, struct model_chunk *c, tensor images)
{
	const struct hparams *s = c->rank->s;
	struct megatron_layer *l;
	struct layer_run part = { .run = one_layer, .context = &l, .size = sizeof(l) };
	tensor x;

	m->part = TERM_VISION;
	m->current_term = TERM_EMBEDDED;
	x = embed_patches(m, c, images);
	transpose(m, s, &x);
	for (int64_t i = 0; i < s->vision.layers; i++) {
		int again = s->recompute == RECOMPUTE_FULL &&
			    (!s->recompute_block || i < s->recompute_layers);

		part.first = l = &c->vision.layers[i];
		tensor_assign(m, &x, maybe_recomputed(m, again, &part, &x, 1));
	}
	transpose(m, s, &x);
	if (s->vision.drops_class)
		tensor_assign(m, &x, slice(m, x, s->batch * s->vision.patches * s->hidden));
	m->part = TERMS;
	return x;
}

/* MultimodalProjector; Transformer Engine's first product has a normalization before it. */
static tensor project(struct machine *m, struct model_chunk *c, tensor images)
{
	struct megatron_layer *l = c->vision.projector;
	tensor x = tensor_ref(images), out;

	m->part = TERM_PROJECTOR;
	transpose(m, c->rank->s, &x);
	if (l->before_mlp.weight)
		tensor_assign(m, &x, hidden_norm(m, c->rank, &l->before_mlp, x));
	out = layer_dense(m, l, x);
	tensor_unref(m, &x);
	if (l->down_bias)
		tensor_assign(m, &out, add(m, out, l->down_bias->value));
	m->part = TERMS;
	return out;
}

/* ---- examples/mimo: images ---- */

/* CLIPEncoderLayer without gradients */
static tensor clip_layer(struct machine *m, const struct hparams *s, struct clip_layer *l, tensor x)
{
	const struct flash_shape shape = { s->batch, CLIP_HEADS, s->vision.patches + 1,
					   CLIP_WIDTH / CLIP_HEADS, 0 };
	tensor h = layer_norm(m, x, l->norm.weight, l->norm.bias, CLIP_WIDTH), part[3], out;

	part[0] = linear(m, h, l->q.weight, l->q.bias);
	part[1] = linear(m, h, l->k.weight, l->k.bias);
	part[2] = linear(m, h, l->v.weight, l->v.bias);
	tensor_assign(m, &h, flash_attention(m, part[0], part[1], part[2], &shape));
	for (int i = 0; i < 3; i++)
		tensor_unref(m, &part[i]);
	tensor_assign(m, &h, linear(m, h, l->out.weight, l->out.bias));
	out = add(m, x, h);
	tensor_assign(m, &h,
		      layer_norm(m, out, l->other_norm.weight, l->other_norm.bias, CLIP_WIDTH));
	tensor_assign(m, &h, linear(m, h, l->up.weight, l->up.bias));
	part[0] = scale(m, h); /* quick_gelu: x * sigmoid(1.702 * x) */
	tensor_assign(m, &part[0], sigmoid(m, part[0]));
	tensor_assign(m, &h, mul(m, h, part[0]));
	tensor_unref(m, &part[0]);
	tensor_assign(m, &h, linear(m, h, l->down.weight, l->down.bias));
	tensor_assign(m, &out, add(m, out, h));
	tensor_unref(m, &h);
	return out;
}

/* HFCLIPEncoderWrapper: all hidden states; of the last but one a copy without the class's token */
static tensor mimo_encode(struct machine *m, struct model_chunk *c, tensor images)
{
	const struct hparams *s = c->rank->s;
	const struct vision_encoder *v = &c->vision;
	tensor *states = xcalloc((size_t)s->vision.layers + 1, sizeof(*states)), positions, first;
	int64_t tokens = s->batch * s->vision.patches;
	int without = m->no_grad;
	tensor out;

	m->no_grad = 1;
	m->part = TERM_VISION;
	states[0] = conv2d(m, images, v->patches, NULL, tokens * CLIP_WIDTH);
	first = slice(m, v->class_token->value, s->batch * CLIP_WIDTH);
	tensor_assign(m, &states[0], cat(m, first, states[0]));
	tensor_unref(m, &first);
	positions = embedding(m, v->numbers, v->positions, CLIP_WIDTH);
	tensor_assign(m, &states[0], add(m, states[0], positions));
	tensor_unref(m, &positions);
	tensor_assign(m, &states[0],
		      layer_norm(m, states[0], v->norm.weight, v->norm.bias, CLIP_WIDTH));
	for (int64_t i = 0; i < s->vision.layers; i++)
		states[i + 1] = clip_layer(m, s, &v->clip[i], states[i]);
	out = tensor_new(m, tokens * CLIP_WIDTH, images.type);
	for (int64_t i = 0; i <= s->vision.layers; i++)
		tensor_unref(m, &states[i]);
	free(states);
	m->no_grad = without;
	m->part = TERMS;
	return out;
}

/* MultimodalProjector with a configuration of its own: biases, GELU */
static tensor mimo_project(struct machine *m, struct model_chunk *c, tensor images)
{
	struct megatron_layer *l = c->vision.projector;
	tensor x, out;

	m->part = TERM_PROJECTOR;
	x = parallel_linear(m, c->rank, images, l->up, NULL, 0);
	if (c->rank->s->training_loop) {
		tensor_assign(m, &x, compiled_activation(m, x, l->up_bias, 0));
	} else {
		tensor_assign(m, &x, add(m, x, l->up_bias->value));
		tensor_assign(m, &x, gelu(m, x));
	}
	out = parallel_linear(m, c->rank, x, l->down, NULL, 0);
	tensor_unref(m, &x);
	tensor_assign(m, &out, add(m, out, l->down_bias->value));
	m->part = TERMS;
	return out;
}

/* into.masked_scatter_(mask, x) */
static void scatter_backward(struct machine *m, struct grad_node *n)
{
	if (n->edge[0])
		n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
	if (n->edge[1])
		n->out[1] = tensor_new(m, n->sizes[0], n->in[0].type);
}

static void scatter(struct machine *m, tensor *into, tensor x, int64_t places)
{
	tensor in[2] = { *into, x }, mask = tensor_new(m, places, BOOL), whole, sums;
	struct grad_node *n = grad_node_new(m, scatter_backward, in, 2);

	if (n)
		n->sizes[0] = x.n;
	save_for_backward(m, n, mask);
	whole = tensor_new(m, into->n, BOOL);
	sums = tensor_new(m, into->n, I64);
	tensor_unref(m, &sums);
	tensor_unref(m, &whole);
	tensor_unref(m, &mask);
	into->grad_fn = n;
	into->output_nr = 0;
}

/* align_embeddings_by_token_positions(), and this rank's part of the sequences (PartitionAdapter).
 */
static tensor mimo_merge(struct machine *m, struct model_chunk *c, tensor images, tensor text)
{
	const struct hparams *s = c->rank->s;
	int64_t places = s->batch * s->tokens;
	tensor out = tensor_new(m, places * s->hidden, s->weights);

	scatter(m, &out, images, places);
	scatter(m, &out, text, places);
	tensor_assign(m, &out, contiguous(m, out));
	if (s->cp > 1) {
		tensor_assign(m, &out, contiguous(m, out));
		tensor_assign(m, &out, repeat(m, out, out.n / s->cp));
		tensor_assign(m, &out, contiguous(m, out));
	}
	return out;
}

static tensor mimo_embed(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	struct microbatch text = { .positions = b->positions };
	tensor images;

	m->current_term = TERM_VISION;
	b->image.converted = to(m, b->image.pixels, s->weights);
	images = mimo_encode(m, c, b->image.converted);
	tensor_unref(m, &b->image.converted);
	b->image.projected = mimo_project(m, c, images);
	tensor_unref(m, &images);
	b->image.tokens = text.tokens =
		tensor_new_as(m, TERM_INPUTS, s->batch * s->vision.text, I64);
	b->image.text = embedding(m, text.tokens, c->tokens, s->hidden);
	m->current_term = TERM_EMBEDDED;
	return mimo_merge(m, c, b->image.projected, b->image.text);
}

/* ---- images among the tokens: _preprocess_data() ---- */

/* into[indices] = x. The gradient of `into` is a copy with zeros in those places; that of x are
 * those places. sizes: elements of x */
static void put_backward(struct machine *m, struct grad_node *n)
{
	tensor zeros;

	if (n->edge[0]) {
		zeros = tensor_new(m, n->sizes[0], n->in[0].type);
		n->out[0] = tensor_new(m, n->in[0].n, n->in[0].type);
		tensor_unref(m, &zeros);
	}
	if (n->edge[1])
		n->out[1] = tensor_new(m, n->sizes[0], n->in[0].type);
}

static tensor put(struct machine *m, tensor into, tensor x, tensor first, tensor second)
{
	tensor in[2] = { into, x };
	struct grad_node *n = grad_node_new(m, put_backward, in, 2);

	if (n)
		n->sizes[0] = x.n;
	save_for_backward(m, n, first);
	save_for_backward(m, n, second);
	return with_grad_fn(tensor_ref(into), n, 0);
}

/* Places of the text: in the text without images (rows and columns, views of what nonzero()
 * returned), and among all tokens. */
struct places {
	tensor text, all, images;
};

static struct places find_places(struct machine *m, const struct hparams *s)
{
	int64_t text = s->batch * (s->vision.text - 1);
	struct places p;

	p.text = tensor_new(m, 2 * text, I64);
	p.all = tensor_new(m, text, I64);
	p.images = tensor_new(m, s->batch * s->tokens, BOOL);
	return p;
}

static tensor merge(struct machine *m, struct model_chunk *c, tensor images, tensor text)
{
	const struct hparams *s = c->rank->s;
	struct places p;
	tensor x, out;

	m->current_term = TERM_EMBEDDED;
	p = find_places(m, s);
	out = tensor_new(m, s->batch * s->tokens * s->hidden, text.type);
	x = gather(m, text, p.text, s->batch * (s->vision.text - 1) * s->hidden);
	tensor_assign(m, &out, put(m, out, x, p.text, p.all));
	tensor_unref(m, &x);
	x = tensor_ref(images);
	transpose(m, s, &x);
	tensor_assign(m, &out, put(m, out, x, p.images, none));
	tensor_unref(m, &x);
	transpose(m, s, &out);
	tensor_unref(m, &p.text);
	tensor_unref(m, &p.all);
	tensor_unref(m, &p.images);
	return out;
}

tensor llava_embed(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	struct microbatch text = { .positions = b->positions };
	tensor images;

	if (s->vision.by_transformers)
		return mimo_embed(m, c, b);
	m->current_term = TERM_INPUTS;
	b->image.converted = to(m, b->image.pixels, s->weights);
	images = encode(m, c, b->image.converted);
	b->image.projected = project(m, c, images);
	tensor_unref(m, &images);
	text.tokens = tensor_new_as(m, TERM_INPUTS, b->tokens.n, I64);
	b->image.text = chunk_embed(m, c, &text);
	transpose(m, s, &b->image.text);
	b->image.tokens = text.tokens;
	return merge(m, c, b->image.projected, b->image.text);
}

void llava_batch_release(struct machine *m, struct microbatch *b)
{
	tensor_unref(m, &b->image.pixels);
	tensor_unref(m, &b->image.converted);
	tensor_unref(m, &b->image.projected);
	tensor_unref(m, &b->image.tokens);
	tensor_unref(m, &b->image.text);
}

void llava_label(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	tensor_assign(m, &b->labels, tensor_new_as(m, TERM_INPUTS, c->rank->rows, I64));
	tensor_assign(m, &b->weights, tensor_new_as(m, TERM_INPUTS, c->rank->rows, F32));
}
