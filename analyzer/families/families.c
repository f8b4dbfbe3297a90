#include "families/families.h"

#include "families/gpt.h"
#include "families/llama.h"
#include "megatron/megatron.h"
#include "megatron/options.h"
#include "families/mlp.h"
#include "torch/unmodelled.h"

static const struct family_model *const models[] = {
	[GPT] = &gpt_model,
	[LLAMA] = &llama_model,
	[MEGATRON_CORE] = &megatron_model,
	[MLP] = &mlp_model,
};

int family_read(struct hparams *s, struct inputs *in)
{
	if (framework_read(in) == MEGATRON)
		check_megatron_options(in);
	return hparams_read(s, in);
}

int family_check(const struct hparams *s, struct inputs *in)
{
	if (check_unmodelled(s, in) < 0)
		return -1;
	return models[s->family]->check(s, in);
}

void family_run(struct machine *m, const struct hparams *s, int64_t stage)
{
	models[s->family]->run(m, s, stage);
}
