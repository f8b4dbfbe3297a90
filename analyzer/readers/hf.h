/* Hugging Face's config.json. */
#ifndef MEMTRACE_HF_H
#define MEMTRACE_HF_H

#include "readers/reader.h"

/* Is the architecture one whose sizes and defaults this reader knows? */
int hf_knows_type(const char *type);
/* The value of a field that the code of an architecture fixes, or its configuration class has;
 * NULL: it has none. */
const char *hf_default(const char *type, enum config_field f);
int config_read_hf(struct reader *r, const struct doc_node *root, const char *name);

/* moe_layer_freq, if the model has experts. */
int config_read_expert_layers(struct reader *r, const struct doc_node *map, const char *type);
/* Puts fields from inner maps, and names variants in unmodelled_options. */
int config_read_variants(struct reader *r, const struct doc_node *map, const char *type);
/* Names a class that is no language model in unmodelled_options. */
int config_read_class(struct reader *r, const struct doc_node *map);

#endif
