/* Hugging Face's config.json. */
#ifndef CONFIG_HF_H
#define CONFIG_HF_H

#include "config/reader.h"

int config_read_hf(struct reader *r, const struct doc_node *root, const char *name);

#endif
