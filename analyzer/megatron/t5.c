/* megatron/core/models/T5/t5_model.py, pretrain_t5.py */
#include "megatron/t5.h"

#include "megatron/declare.h"
#include "megatron/embedding_loss.h"
#include "megatron/layers.h"
#include "megatron/tensor_parallel.h"
#include "util/util.h"

void t5_declare_encoder(struct model_chunk *c)
{
	const struct hparams *s = c->rank->s;

	c->encoder.count = s->encoder_layers;
	if (!c->encoder.count)
		return;
	c->encoder.layers = xcalloc((size_t)c->encoder.count, sizeof(*c->encoder.layers));
	for (int64_t i = 0; i < c->encoder.count; i++) {
		c->encoder.layers[i].in_encoder = 1;
		declare_layer(c, &c->encoder.layers[i], i, 0);
	}
	c->encoder.norm = declare_norm(c, s->hidden);
}

tensor t5_encode(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	struct microbatch of = { .tokens = b->encoder.tokens, .positions = b->encoder.positions };
	tensor x = chunk_embed(m, c, &of);

	for (int64_t i = 0; i < c->encoder.count; i++)
		tensor_assign(m, &x, layer_forward(m, &c->encoder.layers[i], b, x));
	m->current_term = TERM_FINAL_NORM;
	tensor_assign(m, &x, hidden_norm(m, c->rank, &c->encoder.norm, x));
	return x;
}

/* broadcast_data() has text_enc, text_dec, labels, loss_mask, enc_mask and dec_mask in one tensor.
 * Megatron-core's own attention has a mask for each pair of tokens, Transformer Engine's one for
 * each token. */
void t5_batch(struct machine *m, struct model_chunk *c, struct microbatch *b)
{
	const struct hparams *s = c->rank->s;
	int64_t encoder = s->batch * s->encoder_tokens, decoder = s->batch * s->tokens;
	int pairs = !s->transformer_engine;
	tensor all = tensor_new_as(m, TERM_INPUTS, 2 * encoder + 4 * decoder, I64);

	b->encoder.tokens = tensor_part(all, encoder);
	b->tokens = tensor_part(all, decoder);
	b->labels = tensor_part(all, decoder);
	tensor_unref(m, &all);
	b->weights = tensor_new_as(m, TERM_INPUTS, decoder, F32);
	b->encoder.mask =
		tensor_new_as(m, TERM_INPUTS, encoder * (pairs ? s->encoder_tokens : 1), BOOL);
	if (pairs)
		b->mask = tensor_new_as(m, TERM_INPUTS, decoder * s->tokens, BOOL);
	b->encoder.cross_mask =
		tensor_new_as(m, TERM_INPUTS, decoder * (pairs ? s->encoder_tokens : 1), BOOL);
	b->encoder.positions = tensor_new_as(m, TERM_INPUTS, s->encoder_tokens, I64);
	b->positions = tensor_new_as(m, TERM_INPUTS, s->tokens, I64);
}

void t5_batch_release(struct machine *m, struct microbatch *b)
{
	tensor_unref(m, &b->encoder.tokens);
	tensor_unref(m, &b->encoder.positions);
	tensor_unref(m, &b->encoder.mask);
	tensor_unref(m, &b->encoder.cross_mask);
}

void check_t5(const struct hparams *s, struct inputs *in)
{
	if (!s->encoder_layers)
		return;
	if (s->pp > 1)
		input_reject(in, CONFIG_pipeline_model_parallel_size,
			     "1: Megatron-LM's T5 refuses more");
	if (s->recompute == RECOMPUTE_FULL)
		input_reject(in, CONFIG_recompute_granularity,
			     "none or selective: recomputed layers of T5 are not modelled yet");
	if (s->groups != s->heads)
		input_reject(in, CONFIG_num_query_groups,
			     "num_attention_heads: Megatron-core's CrossAttention refuses fewer");
	if (s->experts || s->mtp || s->latent.kv_rank || s->graphs.on)
		input_reject(in, CONFIG_model_type,
			     "gpt with experts, multi-token prediction, latent attention or CUDA "
			     "graphs: T5 is not modelled with them");
}
