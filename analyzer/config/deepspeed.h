/* DeepSpeed's ds_config.json. */
#ifndef CONFIG_DEEPSPEED_H
#define CONFIG_DEEPSPEED_H

#include "config/flags.h"

int config_read_deepspeed(struct reader *r, const struct doc_node *root, const char *name);
/* --deepspeed_config FILE|BASE64, --deepspeed FILE */
int config_read_deepspeed_flags(struct reader *r, const struct flags *f);

#endif
