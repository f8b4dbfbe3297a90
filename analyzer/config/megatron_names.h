/* The keys of Megatron-LM. */
#ifndef CONFIG_KNOWN_H
#define CONFIG_KNOWN_H

struct reader;

/* An argument of Megatron-LM's training scripts, whatever it does. */
int megatron_known(const char *key);
/* One that a reader handles, or known. */
int megatron_has_key(const char *key);
int megatron_read_key(struct reader *r, const char *key, const char *value);

#endif
