/* DeepSpeed's ds_config.json. */
#ifndef MEMTRACE_DEEPSPEED_H
#define MEMTRACE_DEEPSPEED_H

#include "readers/flags.h"

int config_read_deepspeed(struct reader *r, const struct doc_node *root, const char *name);
/* --deepspeed_config FILE|BASE64, --deepspeed FILE */
int config_read_deepspeed_flags(struct reader *r, const struct flags *f);

#endif
