/* ViTForImageClassification of images of the model's own size. Variables live as long as those of
 * its functions. */
#include "families/plain_codes.h"
#include "families/plain_modules.h"

#include "util/util.h"

/* ViTEmbeddings.forward */
static tensor embedded(struct machine *m, struct plain *g, tensor images)
{
	const struct hparams *s = g->s;
	const int64_t patches = s->batch * (s->tokens - 1) * s->hidden;
	tensor class, x;

	m->current_term = TERM_EMBEDDED;
	x = conv2d(m, images, g->patches.weight, g->patches.bias, patches);
	class = s->batch > 1 ? slice(m, g->tokens->value, s->batch * s->hidden)
			     : tensor_ref(g->tokens->value);
	tensor_assign(m, &x, cat(m, class, x));
	tensor_assign(m, &x, add(m, x, g->positions->value));
	tensor_assign(m, &x, dropout(m, x, s->hidden_dropout));
	tensor_unref(m, &class);
	return x;
}

/* dropout(x) + residual; x is taken. */
static tensor joined(struct machine *m, struct plain *g, tensor x, tensor residual)
{
	tensor out;

	tensor_assign(m, &x, dropout(m, x, g->s->hidden_dropout));
	out = add(m, x, residual);
	tensor_unref(m, &x);
	return out;
}

/* ViTLayer.forward */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	struct plain *g = l->model;
	tensor x, residual, weights = none;

	m->current_term = TERM_ATTN_NORM;
	x = plain_normed(m, g, &l->norm[0], input);
	tensor_assign(m, &x, plain_attention(m, l, x, &l->out, &weights));
	residual = joined(m, g, x, input);
	m->current_term = TERM_MLP_NORM;
	x = plain_normed(m, g, &l->norm[1], residual);
	tensor_assign(m, &x, plain_mlp(m, l, x, linear));
	x = joined(m, g, x, residual);
	tensor_unref(m, &residual);
	tensor_unref(m, &weights);
	return x;
}

/* The logits of the classes, from the class's token. */
static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	const struct hparams *s = g->s;
	tensor images = to(m, g->loop.tokens, g->patches.weight->value.type), first, x, h, loss;

	first = embedded(m, g, images);
	x = plain_layers(m, g, block, tensor_ref(first));
	m->current_term = TERM_FINAL_NORM;
	h = plain_normed(m, g, &g->last, x);
	tensor_unref(m, &images);
	tensor_unref(m, &first);
	tensor_unref(m, &x);
	m->current_term = TERM_LOGITS;
	x = slice(m, h, s->batch * s->hidden);
	*logits = linear_rows(m, x, g->classes.weight, g->classes.bias);
	loss = plain_loss(m, *logits, g->loop.labels);
	tensor_unref(m, &h);
	tensor_unref(m, &x);
	return loss;
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const int64_t h = g->s->hidden, f = g->s->ffn;
	const int64_t bias = VALUE_OR(g->s->config, add_qkv_bias, 1) ? h : 0;

	for (int i = 0; i < 3; i++)
		l->parts[i] = plain_pair(m, g, h, h, bias, TERM_ATTENTION_WEIGHTS);
	l->out = plain_dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->norm[0] = plain_norm(m, g);
	l->norm[1] = plain_norm(m, g);
	l->up = plain_dense(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = plain_dense(m, g, h, f, TERM_MLP_WEIGHTS);
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;

	g->tokens = plain_weight(m, g, 1, s->hidden, TERM_EMBEDDING);
	g->positions = plain_weight(m, g, s->tokens, s->hidden, TERM_POSITIONS);
	g->patches =
		plain_dense(m, g, s->hidden, s->image.channels * s->image.patch * s->image.patch,
			    TERM_EMBEDDING);
	plain_make_layers(m, g, make_layer);
	g->last = plain_norm(m, g);
	g->classes = plain_dense(m, g, plain_classes(s), s->hidden, TERM_HEAD);
}

static void check(const struct hparams *s, struct inputs *in)
{
	const int64_t side = s->image.patch ? s->image.side / s->image.patch : 0;
	const wide most = (wide)1 << 48, channels = s->image.channels;

	estimate_note(in->out, "cuDNN's workspace of the convolution over patches is not counted");
	if (!side)
		input_reject(in, CONFIG_image_size, "a multiple of patch_size");
	else if (s->tokens != side * side + 1)
		input_reject(in, CONFIG_seq_length,
			     "(image_size / patch_size)^2 + 1: a patch is a token");
	if (s->batch * channels * s->image.side * s->image.side > most ||
	    s->hidden * channels * s->image.patch * s->image.patch > most)
		input_reject(in, CONFIG_image_size,
			     "images whose tensors have at most 2^48 elements");
	if (plain_classes(s) < 2)
		input_reject(in, CONFIG_num_labels, "at least 2");
}

const struct plain_code plain_vit = { make, forward, NULL, check, 0, 0, 1, 0 };
