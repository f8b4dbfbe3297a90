#include "families/families.h"

#include "families/decoders.h"
#include "families/gpt.h"
#include "families/llama.h"
#include "pipeline/megatron.h"
#include "megatron/options.h"
#include "families/mlp.h"
#include "families/plain.h"
#include "torch/unmodelled.h"

static const struct family_model *const models[] = {
	[GPT] = &gpt_model,     [LLAMA] = &llama_model,
	[PLAIN] = &plain_model, [MEGATRON_CORE] = &megatron_model,
	[MLP] = &mlp_model,
};

/* transformers has no kernel for this model, so that attention is eager by itself. */
static void choose_attention(struct hparams *s, const struct inputs *in)
{
	const struct decoder *row = s->family == LLAMA && GIVEN(in->c, model_type)
					    ? decoder_find(in->c->model_type)
					    : NULL;

	if (GIVEN(in->c, attention))
		return;
	if ((row && row->capped) || (s->family == PLAIN && plain_is_eager(in->c->model_type)))
		s->attention = EAGER;
}

/* A model_type of transformers has the forward pass of its own class. */
static void choose_family(struct hparams *s, struct inputs *in)
{
	if ((s->framework != TRANSFORMERS && s->framework != DEEPSPEED) ||
	    !GIVEN(in->c, model_type) || !plain_has(in->c->model_type))
		return;
	s->family = PLAIN;
	s->keep_logits = input_flag(in, CONFIG_keep_logits, !in->c->from_framework);
}

int family_read(struct hparams *s, struct inputs *in)
{
	if (framework_read(in) == MEGATRON)
		check_megatron_options(in);
	if (hparams_read(s, in) < 0)
		return -1;
	choose_family(s, in);
	choose_attention(s, in);
	return 0;
}

/* The model_type of a decoder of transformers must have a row. */
static void check_type(const struct hparams *s, struct inputs *in)
{
	if (s->family == LLAMA && GIVEN(in->c, model_type) && !decoder_find(in->c->model_type))
		input_reject(in, CONFIG_model_type, decoder_types);
}

int family_check(const struct hparams *s, struct inputs *in)
{
	check_type(s, in);
	if (in->failed)
		return -1;
	if (check_unmodelled(s, in) < 0)
		return -1;
	return models[s->family]->check(s, in);
}

void family_run(struct machine *m, const struct hparams *s, int64_t stage)
{
	models[s->family]->run(m, s, stage);
}
