/* Layers that differ from one another. With experts: Hugging Face's keys, and the lists of
 * Megatron's --moe-layer-freq: "2", "[0,1,1]", "([0]*3+[1]*58)". With windows: Hugging Face's keys,
 * and those that make another model of an architecture than the one that memtrace models. */
#ifndef CONFIG_LAYER_PATTERN_H
#define CONFIG_LAYER_PATTERN_H

#include "config/reader.h"

/* "([0]*3+[1]*58)" as "[0,0,0,1,...]", "2" as "2". To be freed; NULL: malformed. */
char *layer_pattern(const char *text);

/* moe_layer_freq from the keys of a Hugging Face file, if it has experts. */
int config_read_expert_layers(struct reader *r, const struct doc_node *map, const char *type);

/* Puts fields from inner maps, and names variants in unmodelled_options. */
int config_read_variants(struct reader *r, const struct doc_node *map, const char *type);
/* Names a class that is no language model in unmodelled_options. */
int config_read_class(struct reader *r, const struct doc_node *map);

/* Is this model_type an encoder of text, with BERT's keys and modules? */
int config_is_encoder(const char *type);

/* The longest sequence for which the model has learned positions; 0: not known. */
int64_t config_most_tokens(const struct config *c);

#endif
