/* A command line as flags with values: "--num-layers 4", "--num-layers=4", "--lr 1 2". */
#ifndef MEMTRACE_FLAGS_H
#define MEMTRACE_FLAGS_H

#include "readers/reader.h"

struct flag {
	char *written; /* "--num-layers" */
	char *key;     /* "num_layers"; of torchtitan "training.seq_len" */
	char *value;   /* several values are joined by commas; NULL: the flag has none */
	int joined;    /* written --key=value */
};

struct flags {
	struct flag *at;
	size_t count;
};

/* Is the argument a flag? "-1" and "-0.5" are values. */
int is_flag(const char *arg);

/* Adds the flags of a command line to `f`; what stands before the first flag is skipped. */
void flags_split(struct flags *f, int argc, char **argv);
void flags_release(struct flags *f);

/* The last flag of that key, as in argparse; NULL: none. */
const struct flag *flags_find(const struct flags *f, const char *key);

/* The value; of a flag without one "true". A store_true flag takes no value: a word after it that
 * is not joined by "=" belongs to no flag. */
const char *flag_value(const struct flag *flag);

/* Reads every flag by one table; a flag without a value is "true". */
int reader_read_flags(struct reader *r, const struct key_table *t, const struct flags *f);

#endif
