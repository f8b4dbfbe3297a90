/* The readers, one file a format. `name` is the file as messages name it; all set fields of r->c
 * and nothing else. */
#ifndef CONFIG_FORMATS_H
#define CONFIG_FORMATS_H

#include "config/reader.h"

/* ---- files ---- */
int config_read_own(struct reader *r, const struct doc_node *root, const char *name);
int config_read_hf(struct reader *r, const struct doc_node *root, const char *name);
int config_read_deepspeed(struct reader *r, const struct doc_node *root, const char *name);
int config_read_accelerate(struct reader *r, const struct doc_node *root, const char *name);
int config_read_megatron_yaml(struct reader *r, const struct doc_node *root, const char *name);
int config_read_trainer_file(struct reader *r, const struct doc_node *root, const char *name);

/* ---- command lines ---- */

/* One flag of a command line. */
struct flag {
	char *written; /* "--num-layers" */
	char *key;     /* "num_layers"; of torchtitan "training.seq_len" */
	char *value;   /* several are joined by commas; NULL: none followed */
	int joined;    /* --a=b */
};

struct flags {
	struct flag *at;
	size_t count;
};

const struct flag *flags_find(const struct flags *f, const char *key);
/* Every flag through one table; one without a value is "true". */
int config_read_flags(struct reader *r, const struct key_table *t, const struct flags *f);

int config_read_megatron(struct reader *r, const struct flags *f);
/* A script that trains another model than a GPT. */
int megatron_read_script(struct reader *r, const char *script);
int config_read_trainer(struct reader *r, const struct flags *f);
int config_read_torchtitan(struct reader *r, const struct flags *f);
/* Trainer's fsdp_config: Accelerate's keys, with or without their prefix. */
int config_read_fsdp(struct reader *r, const struct doc_node *map, const char *name);
/* A file of them; one that is not there is a note. */
int config_read_fsdp_file(struct reader *r, const char *path);
/* NULL: not base64. To be freed. */
char *decode_base64(const char *text, size_t *length);
/* --deepspeed_config FILE|BASE64, --deepspeed FILE */
int config_read_deepspeed_flags(struct reader *r, const struct flags *f);
int config_read_accelerate_env(struct reader *r, char **env, unsigned count);
/* what stands between `accelerate launch` and the script */
int config_read_accelerate_flags(struct reader *r, const struct flags *f);

/* config_read_command; `lenient`: files that it names need not be here. */
int config_read_arguments(struct config *c, int argc, char **argv, char **env, unsigned env_count,
			  int lenient, struct err *e);

/* Does a command line look like this framework's? */
int megatron_knows(const struct flags *f);
int trainer_knows(const struct flags *f);
int torchtitan_knows(const struct flags *f);

/* Reads a file from within another; `lenient`: a file that is not there is a note. */
int config_read_path(struct reader *r, const char *path, int lenient);
/* A file's text that is in memory. */
int config_read_text(struct reader *r, const char *text, size_t length, const char *name,
		     int is_yaml);

#endif
