/* The number of a model's parameters, counted from its architecture. */
#ifndef CONFIG_PARAMETER_COUNT_H
#define CONFIG_PARAMETER_COUNT_H

#include "config/config.h"

/* `total`: parameters of the whole model; `largest`: the most that one module holds itself. Fields
 * that are not given are those of `arch`. -1: a field is missing. */
int config_count_parameters(const struct config *c, int64_t *total, int64_t *largest,
			    struct err *e);

/* Has layer `layer` (from 0) experts, by num_experts and moe_layer_freq? */
int config_moe_layer(const struct config *c, int64_t layer);

/* Has layer `layer` a gated delta net, by experimental_attention_variant and linear_attention_freq?
 */
int config_linear_layer(const struct config *c, int64_t layer);

/* Is this model_type an encoder of text, with BERT's keys and modules? */
int config_is_encoder(const char *type);
/* Is it an encoder-decoder with T5's keys and modules? */
int config_is_t5(const char *type);

/* The longest sequence for which the model has learned positions; 0: not known. */
int64_t config_most_tokens(const struct config *c);

#endif
