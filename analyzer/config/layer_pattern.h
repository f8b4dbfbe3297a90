/* Layers that differ from one another. With experts: Hugging Face's keys, and the lists of
 * Megatron's --moe-layer-freq: "2", "[0,1,1]", "([0]*3+[1]*58)". With windows: Hugging Face's keys,
 * and those that make another model of an architecture than the one that memtrace models. */
#ifndef CONFIG_LAYER_PATTERN_H
#define CONFIG_LAYER_PATTERN_H

#include <stdint.h>

#include "config/document.h"

/* "([0]*3+[1]*58)" as "[0,0,0,1,...]", "2" as "2". To be freed; NULL: malformed. */
char *layer_pattern(const char *text);

/* The same list from the keys of a Hugging Face file of that model type, whose `count` layers are
 * some with experts and some without. To be freed. */
char *layer_pattern_of_file(const struct doc_node *map, const char *type, int64_t count);

/* Puts fields from inner maps, and names variants in unmodelled_options. */
int config_read_variants(struct reader *r, const struct doc_node *map, const char *type);
/* Names a class that is no language model in unmodelled_options. */
int config_read_class(struct reader *r, const struct doc_node *map);

#endif
