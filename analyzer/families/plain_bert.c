/* BertForMaskedLM and BertForSequenceClassification, and RoBERTa's, whose batch has no padding: no
 * token is masked, and transformers makes no mask. Variables live as long as those of its
 * functions. */
#include "families/plain_codes.h"

#include "config/parameter_count.h"
#include "families/plain_modules.h"

#include "util/util.h"

static double classifier_dropout(const struct hparams *s)
{
	return VALUE_OR(s->config, classifier_dropout, s->hidden_dropout);
}

/* ---- the embeddings ---- */

/* create_position_ids_from_input_ids: a number of each token of the batch. */
static tensor counted(struct machine *m, int64_t n)
{
	static const enum dtype types[] = { BOOL, I32, I64, I32, I32, I32, I64, I64 };
	tensor mask = none, x = none;

	/* ne, int; cumsum, type_as, + past, * mask; long, + padding_idx */
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		tensor_assign(m, &x, tensor_new(m, n, types[i]));
		if (i == 1)
			mask = tensor_ref(x);
	}
	tensor_unref(m, &mask);
	return x;
}

/* BERT's positions are the first of its buffer, the same for each row of the batch. */
static tensor places_of(struct machine *m, struct plain *g)
{
	tensor places;

	if (g->code == &plain_roberta)
		return counted(m, g->loop.tokens.n);
	places = tensor_ref(g->numbers[0]);
	places.n = g->s->tokens;
	return places;
}

/* BertEmbeddings.forward */
static tensor embedded(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;
	tensor places, types, tokens, kinds, positions, x;

	m->current_term = TERM_EMBEDDED;
	places = places_of(m, g);
	types = tensor_new(m, places.n, I64);
	tokens = embedding(m, g->loop.tokens, g->tokens, s->hidden);
	kinds = embedding_of(m, types, g->loop.tokens.n, g->types, s->hidden);
	x = add(m, tokens, kinds);
	positions = embedding(m, places, g->positions, s->hidden);
	tensor_assign(m, &x, add(m, x, positions));
	tensor_assign(m, &x, plain_normed(m, g, &g->first, x));
	tensor_assign(m, &x, dropout(m, x, s->hidden_dropout));
	tensor_unref(m, &places);
	tensor_unref(m, &types);
	tensor_unref(m, &tokens);
	tensor_unref(m, &kinds);
	tensor_unref(m, &positions);
	return x;
}

/* ---- a layer ---- */

/* The end of BertSelfOutput and BertOutput: norm(dropout(x) + input). x is taken. */
static tensor joined(struct machine *m, struct plain *g, const struct pair *norm, tensor x,
		     tensor input)
{
	tensor sum, out;

	tensor_assign(m, &x, dropout(m, x, g->s->hidden_dropout));
	sum = add(m, x, input);
	out = plain_normed(m, g, norm, sum);
	tensor_unref(m, &sum);
	tensor_unref(m, &x);
	return out;
}

/* BertIntermediate, whose result lives as long as BertOutput */
static tensor fed(struct machine *m, struct plain_layer *l, tensor x)
{
	tensor h, out;

	m->current_term = TERM_MLP_HIDDEN;
	h = linear(m, x, l->up.weight, l->up.bias);
	tensor_assign(m, &h, plain_activated(m, l->model, h));
	m->current_term = TERM_MLP_OUT;
	out = linear(m, h, l->down.weight, l->down.bias);
	m->current_term = TERM_MLP_NORM;
	out = joined(m, l->model, &l->norm[1], out, x);
	tensor_unref(m, &h);
	return out;
}

/* BertLayer.forward */
static tensor block(struct machine *m, void *context, tensor input)
{
	struct plain_layer *l = context;
	tensor part, x, out, weights = none;

	part = plain_attention(m, l, input, NULL, &weights); /* BertSelfAttention.forward */
	m->current_term = TERM_ATTN_OUT;
	x = linear(m, part, l->out.weight, l->out.bias);
	m->current_term = TERM_ATTN_NORM;
	x = joined(m, l->model, &l->norm[0], x, input);
	tensor_unref(m, &part);
	out = fed(m, l, x);
	tensor_unref(m, &x);
	tensor_unref(m, &weights);
	return out;
}

/* ---- the model ---- */

/* The vocabulary's logits: BertLMPredictionHead, RobertaLMHead, which has no other activation
 * function than GELU. */
static tensor predicted(struct machine *m, struct plain *g, tensor x)
{
	tensor h = linear(m, x, g->dense.weight, g->dense.bias), out;

	tensor_assign(m, &h, g->code == &plain_roberta ? gelu(m, h) : plain_activated(m, g, h));
	tensor_assign(m, &h, plain_normed(m, g, &g->last, h));
	out = linear(m, h, g->head, g->classes.bias);
	tensor_unref(m, &h);
	return out;
}

/* The logits of the classes, from each row's first token: BertPooler and the classifier, and
 * RobertaClassificationHead, which has a dropout more. */
static tensor classified(struct machine *m, struct plain *g, tensor x)
{
	const struct hparams *s = g->s;
	tensor h = slice(m, x, s->batch * s->hidden), out;

	if (g->code == &plain_roberta)
		tensor_assign(m, &h, dropout(m, h, classifier_dropout(s)));
	tensor_assign(m, &h, linear_rows(m, h, g->dense.weight, g->dense.bias));
	tensor_assign(m, &h, sigmoid(m, h)); /* tanh saves its result, as sigmoid does */
	tensor_assign(m, &h, dropout(m, h, classifier_dropout(s)));
	out = linear_rows(m, h, g->classes.weight, g->classes.bias);
	tensor_unref(m, &h);
	return out;
}

static tensor forward(struct machine *m, void *model, tensor *logits)
{
	struct plain *g = model;
	const int64_t labels = plain_classes(g->s);
	tensor first, x, loss;

	first = embedded(m, g);
	x = plain_layers(m, g, block, tensor_ref(first));
	tensor_unref(m, &first);
	m->current_term = TERM_LOGITS;
	*logits = labels ? classified(m, g, x) : predicted(m, g, x);
	loss = plain_loss(m, *logits, labels ? g->loop.labels : g->loop.tokens);
	tensor_unref(m, &x);
	return loss;
}

static struct pair dense(struct machine *m, struct plain *g, int64_t out, int64_t in,
			 enum term_id term)
{
	return plain_pair(m, g, out, in, out, term);
}

static void make_layer(struct machine *m, struct plain *g, struct plain_layer *l)
{
	const int64_t h = g->s->hidden, f = g->s->ffn;

	for (int i = 0; i < 3; i++)
		l->parts[i] = dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->out = dense(m, g, h, h, TERM_ATTENTION_WEIGHTS);
	l->norm[0] = plain_norm(m, g);
	l->up = dense(m, g, f, h, TERM_MLP_WEIGHTS);
	l->down = dense(m, g, h, f, TERM_MLP_WEIGHTS);
	l->norm[1] = plain_norm(m, g);
}

/* The layers after the blocks. The output layer shares the embedding's weight. */
static void make_head(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;
	const int64_t labels = plain_classes(s);

	if (!labels)
		g->classes.bias = plain_weight(m, g, 1, s->vocab, TERM_HEAD);
	g->dense = dense(m, g, s->hidden, s->hidden, TERM_HEAD);
	if (labels)
		g->classes = dense(m, g, labels, s->hidden, TERM_HEAD);
	else
		g->last = plain_norm(m, g);
	g->head = g->tokens;
}

static void make(struct machine *m, struct plain *g)
{
	const struct hparams *s = g->s;
	const struct config *c = s->config;

	g->tokens = plain_weight(m, g, s->vocab, s->hidden, TERM_EMBEDDING);
	g->positions = plain_weight(m, g, s->positions, s->hidden, TERM_POSITIONS);
	g->types = plain_weight(m, g, VALUE_OR(c, type_vocab_size, 2), s->hidden, TERM_POSITIONS);
	g->first = plain_norm(m, g);
	for (int i = 0; i < 2; i++)
		g->numbers[i] = tensor_new_as(m, TERM_BUFFERS, s->positions, I64);
	plain_make_layers(m, g, make_layer);
	make_head(m, g);
}

static void check(const struct hparams *s, struct inputs *in)
{
	estimate_note(in->out, "no token is padded: with padding, attention has a mask");
	if (!s->linear_bias)
		input_reject(in, CONFIG_add_bias_linear, "true with BERT");
	if (!s->learned_positions)
		input_reject(in, CONFIG_position_embedding_type, "learned_absolute with BERT");
	if (s->untied && !plain_classes(s))
		input_reject(in, CONFIG_untie_embeddings_and_output_weights, "false with BERT");
	if (s->tokens > config_most_tokens(s->config))
		input_reject(in, CONFIG_seq_length,
			     "at most as many as the model has positions for");
}

const struct plain_code plain_bert = { make, forward, NULL, check, 0, 0, 0, 0 };
const struct plain_code plain_roberta = { make, forward, NULL, check, 0, 0, 0, 0 };
