/* Accelerate: its YAML, the environment that `accelerate launch` sets, and the launcher's flags. */
#ifndef MEMTRACE_ACCELERATE_H
#define MEMTRACE_ACCELERATE_H

#include "readers/flags.h"

int config_read_accelerate(struct reader *r, const struct doc_node *root, const char *name);
int config_read_accelerate_env(struct reader *r, char **env, unsigned count);
/* The flags between `accelerate launch` and the script. */
int config_read_accelerate_flags(struct reader *r, const struct flags *f);
/* Trainer's fsdp_config: Accelerate's keys, with or without their prefix. */
int config_read_fsdp(struct reader *r, const struct doc_node *map, const char *name);

#endif
