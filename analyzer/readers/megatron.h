/* Megatron-LM's arguments: a command line, its argument YAML, Megatron-Bridge's run_config.yaml. */
#ifndef MEMTRACE_MEGATRON_H
#define MEMTRACE_MEGATRON_H

#include "readers/flags.h"

int config_read_megatron(struct reader *r, const struct flags *f);
int config_read_megatron_yaml(struct reader *r, const struct doc_node *root, const char *name);

/* Marks the job as not modelled if the script trains another model than a GPT. */
int megatron_read_script(struct reader *r, const char *script);
/* Does a command line look like Megatron-LM's? */
int megatron_knows(const struct flags *f);

/* Is `key` (snake case) an argument of Megatron-LM's training scripts (megatron_arguments.def), or
 * a key with a row of the reader? */
int megatron_has_key(const char *key);
int megatron_read_key(struct reader *r, const char *key, const char *value);

#endif
