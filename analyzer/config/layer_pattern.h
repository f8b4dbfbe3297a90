/* Layers with experts: Hugging Face's keys, and the lists of Megatron's --moe-layer-freq: "2",
 * "[0,1,1]", "([0]*3+[1]*58)". */
#ifndef CONFIG_LAYER_PATTERN_H
#define CONFIG_LAYER_PATTERN_H

#include "config/reader.h"

/* "([0]*3+[1]*58)" as "[0,0,0,1,...]", "2" as "2". To be freed; NULL: malformed. */
char *layer_pattern(const char *text);

/* moe_layer_freq from the keys of a Hugging Face file, if it has experts. */
int config_read_expert_layers(struct reader *r, const struct doc_node *map, const char *type);

#endif
