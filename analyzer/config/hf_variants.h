#ifndef MEMTRACE_CONFIG_HF_VARIANTS_H
#define MEMTRACE_CONFIG_HF_VARIANTS_H

#include "config/document.h"
#include "config/reader.h"

/* Puts fields from inner maps, and names variants in unmodelled_options. */
int hf_read_variants(struct reader *r, const struct doc_node *map, const char *type);
/* Names a class that is no language model in unmodelled_options. */
int hf_read_class(struct reader *r, const struct doc_node *map);

#endif
