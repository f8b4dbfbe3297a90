/* Hugging Face's config.json. */
#ifndef CONFIG_HF_H
#define CONFIG_HF_H

#include "config/reader.h"

/* Is the architecture one whose sizes and defaults this reader knows? */
int hf_knows_type(const char *type);
int config_read_hf(struct reader *r, const struct doc_node *root, const char *name);

#endif
