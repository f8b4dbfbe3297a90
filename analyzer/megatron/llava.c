/* megatron/core/models/multimodal/llava_model.py, megatron/core/models/vision, pretrain_vlm.py */
#include "megatron/llava.h"

#include <stdlib.h>

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
	free(c->vision.projector);
}

/* ---- a micro-batch ---- */

/* broadcast_data() has tokens, positions and labels in one tensor, images and the loss mask in
 * another. Float16Module converts the first stage's. */
void llava_batch(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	int64_t text = s->batch * s->vision.text, pixels = 3 * s->batch * s->vision.pixels;
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

void check_llava(const struct hparams *s, struct inputs *in)
{
	if (!s->vision.patch)
		return;
	estimate_note(in->out, "cuDNN's workspace of the convolution over patches is not counted");
	if (s->cp > 1 || s->sequence_parallel)
		input_reject(in,
			     s->cp > 1 ? CONFIG_context_parallel_size : CONFIG_sequence_parallel,
			     "none with images among the tokens: not modelled yet");
	if (s->vpp > 1)
		input_reject(in, CONFIG_virtual_pipeline_model_parallel_size,
			     "1 with images among the tokens: not modelled yet");
	if (s->recompute == RECOMPUTE_FULL && !s->recompute_block && s->recompute_layers > 1)
		input_reject(in, CONFIG_recompute_num_layers,
			     "1 with images among the tokens: not modelled yet");
	if (s->experts || s->mtp || s->latent.kv_rank || s->graphs.on || s->fp8 || s->offload ||
	    s->optimizer == MUON || s->wrapper != MEGATRON_OWN)
		input_reject(in, CONFIG_model_type,
			     "gpt with experts, multi-token prediction, latent attention, CUDA "
			     "graphs, fp8, offloaded modules, Muon or FSDP: LLaVA is not modelled "
			     "with them");
}
