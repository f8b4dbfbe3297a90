/* The parameter count where a document asks for one and the job gives a shape. */
#include "model/read.h"

#include <stdio.h>
#include <string.h>

/* What `arch` says of what is not given; llama is the default. */
static const struct {
	const char *key, *llama, *gpt;
} defaults[] = {
	{ "swiglu", "true", "false" },
	{ "add_bias_linear", "false", "true" },
	{ "normalization", "RMSNorm", "LayerNorm" },
	{ "untie_embeddings_and_output_weights", "true", "false" },
};

/* Megatron's rule for SwiGLU: two thirds of 4 h, in multiples of 64. */
static void set_width(struct config *c, struct err *e)
{
	char text[32];

	if (GIVEN(c, ffn_hidden_size) || !GIVEN(c, hidden_size) || !VALUE_OR(c, swiglu, 0))
		return;
	snprintf(text, sizeof(text), "%lld",
		 (long long)largest((wide)c->hidden_size * 4 * 2 / 3 / 64 * 64, 64));
	config_set(c, "ffn_hidden_size", text, "default", e);
}

int parameters_count(const struct config *given, int64_t *total, int64_t *module, struct err *e)
{
	int gpt = GIVEN(given, arch) && !strcmp(given->arch, "gpt"), status;
	struct config c;

	/* A model_type fixes its own architecture. */
	if (GIVEN(given, model_type))
		return config_count_parameters(given, total, module, e);
	config_init(&c);
	config_copy(&c, given);
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (!config_has(&c, (enum config_field)config_find(defaults[i].key)))
			config_set(&c, defaults[i].key, gpt ? defaults[i].gpt : defaults[i].llama,
				   "default", e);
	set_width(&c, e);
	status = config_count_parameters(&c, total, module, e);
	config_release(&c);
	return status;
}
