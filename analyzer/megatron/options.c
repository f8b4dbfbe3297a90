/* Options of Megatron-LM that this model does not count, and those of recomputation. */
#include "megatron/options.h"

#include "megatron/schedule.h"

#include <stdio.h>
#include <string.h>

#include "util/buf.h"
#include "util/util.h"

static const struct megatron_option {
	enum config_field field;
	const char *harmless, *what;
} stops[] = {
#define STOPS(field, harmless, what) { CONFIG_##field, harmless, what },
#define NOTED(field, harmless, what)
#define IGNORED(field, why)
#include "megatron/options.def"
#undef STOPS
#undef NOTED
#undef IGNORED
}, noted[] = {
#define STOPS(field, harmless, what)
#define NOTED(field, harmless, what) { CONFIG_##field, harmless, what },
#define IGNORED(field, why)
#include "megatron/options.def"
#undef STOPS
#undef NOTED
#undef IGNORED
};

static int matters(const struct config *c, const struct megatron_option *o)
{
	static const char *const off[] = { "false", "0", "none" };
	struct buf value = { 0 };
	int differs;

	if (!config_has(c, o->field))
		return 0;
	config_value(c, o->field, &value);
	differs = strcmp(value.text, o->harmless) != 0;
	for (size_t i = 0; i < ARRAY_SIZE(off); i++)
		differs &= strcmp(value.text, off[i]) != 0;
	buf_release(&value);
	return differs;
}

void check_megatron_options(struct inputs *in)
{
	const char *positions = VALUE_OR(in->c, position_embedding_type, "rope");

	if (GIVEN(in->c, unmodelled_options))
		input_reject(in, CONFIG_unmodelled_options, "none: not modelled yet");
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++)
		if (matters(in->c, &stops[i])) {
			char expected[96];

			snprintf(expected, sizeof(expected), "%s: %s: not modelled yet",
				 *stops[i].harmless ? stops[i].harmless : "none", stops[i].what);
			input_reject(in, stops[i].field, expected);
		}
	for (size_t i = 0; i < ARRAY_SIZE(noted); i++)
		if (matters(in->c, &noted[i]))
			estimate_note(in->out, "%s (%s): not counted", noted[i].what,
				      config_name(noted[i].field));
	if (!strcmp(positions, "relative") || !strcmp(positions, "mrope"))
		input_reject(in, CONFIG_position_embedding_type,
			     "learned_absolute, rope, yarn or none");
	if (!strcmp(VALUE_OR(in->c, transformer_impl, "local"), "inference_optimized"))
		input_reject(in, CONFIG_transformer_impl, "local or transformer_engine");
}

/* ---- recomputation ---- */

/* TransformerBlock._checkpointed_forward() runs no layer beyond the last one of a stage. */
static void check_layers(const struct hparams *s, struct inputs *in)
{
	int64_t n = s->recompute_layers;

	if (s->recompute != RECOMPUTE_FULL || s->recompute_block || n == 1)
		return;
	if (s->experts || s->mtp)
		input_reject(in, CONFIG_recompute_num_layers,
			     "1 with experts or with layers that predict further tokens: their "
			     "groups are not modelled yet");
	for (int64_t i = 0; i < s->pp * s->vpp; i++)
		if (chunk_layers(s, i / s->vpp, i % s->vpp) % n) {
			input_reject(in, CONFIG_recompute_num_layers,
				     "a number that divides the layers of each stage");
			return;
		}
}

/* Outputs that are discarded and recomputed: layernorm, mla_up_proj; and the shared experts. */
static void check_modules(const struct hparams *s, struct inputs *in)
{
	int outputs = s->recompute_norms || s->recompute_latent;

	if (s->recompute_latent && !s->latent.kv_rank)
		input_reject(in, CONFIG_recompute_modules,
			     "no mla_up_proj without multi_latent_attention: Megatron-core refuses "
			     "it");
	if (s->recompute_shared && VALUE_OR(in->c, moe_shared_expert_overlap, 0))
		input_reject(in, CONFIG_recompute_modules,
			     "no shared_experts with moe_shared_expert_overlap: Megatron-core "
			     "refuses it");
	if (outputs && s->fp8)
		input_reject(in, CONFIG_recompute_modules,
			     "neither layernorm nor mla_up_proj with fp8: not modelled yet");
	if ((outputs || s->recompute_shared) && s->graphs.on)
		input_reject(in, CONFIG_recompute_modules,
			     "core_attn and moe_act alone with CUDA graphs: not modelled yet");
}

/* GPTModel.preprocess_for_fine_grained_offloading() alone begins groups. */
static void check_offload(const struct hparams *s, struct inputs *in)
{
	const unsigned experts = 1u << OFFLOAD_EXPERT_UP | 1u << OFFLOAD_ACTIVATION;
	const char *expected = NULL;

	if (!input_flag(in, CONFIG_fine_grained_activation_offloading, 0))
		return;
	if (!s->offload)
		expected = "some modules: Megatron-core refuses none";
	else if (s->offload >> OFFLOAD_PROJECTION & 1 && !(s->offload >> OFFLOAD_ATTENTION & 1))
		expected = "core_attn too: Megatron-core refuses attn_proj without it";
	else if (s->recompute == RECOMPUTE_FULL || (s->recompute_moe && s->offload & experts))
		expected = "no modules of recomputed layers: not modelled yet";
	else if (s->graphs.on || s->fp8 || s->hybrid || s->is_bert || s->encoder_layers)
		expected =
			"none with CUDA graphs, with fp8, and in hybrid models, BERT and T5: not "
			"modelled yet";
	if (expected)
		input_reject(in, CONFIG_offload_modules, expected);
}

void check_recompute(const struct hparams *s, struct inputs *in)
{
	check_layers(s, in);
	check_modules(s, in);
	check_offload(s, in);
}

/* ---- images ---- */

void check_llava(const struct hparams *s, struct inputs *in)
{
	if (!s->vision.patch)
		return;
	estimate_note(in->out, "cuDNN's workspace of the convolution over patches is not counted");
	if (s->vision.by_transformers)
		estimate_note(in->out, "each sequence has one image");
	if (s->vision.by_transformers && (s->tp > 1 || s->pp > 1))
		input_reject(in,
			     s->tp > 1 ? CONFIG_tensor_model_parallel_size
				       : CONFIG_pipeline_model_parallel_size,
			     "1: the provider llava_vlm of examples/mimo takes no other");
	if ((s->cp > 1 && !s->vision.by_transformers) || s->sequence_parallel)
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
