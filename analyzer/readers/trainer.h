/* transformers' Trainer: its arguments on a command line or in one file. */
#ifndef MEMTRACE_TRAINER_H
#define MEMTRACE_TRAINER_H

#include "readers/flags.h"

int config_read_trainer(struct reader *r, const struct flags *f);
int config_read_trainer_file(struct reader *r, const struct doc_node *root, const char *name);
/* Does a command line look like Trainer's? */
int trainer_knows(const struct flags *f);

#endif
