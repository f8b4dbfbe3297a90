/* The arguments of Megatron-LM's training scripts: megatron_names.def. */
#ifndef CONFIG_MEGATRON_NAMES_H
#define CONFIG_MEGATRON_NAMES_H

/* Is `key` (snake case) such an argument, with or without an effect on memory? */
int megatron_known(const char *key);

#endif
