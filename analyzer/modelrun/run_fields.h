/* The declared fields that a run of the model obeys, and the jobs that it would not be
 * (run_fields.def). */
#ifndef MEMTRACE_RUN_FIELDS_H
#define MEMTRACE_RUN_FIELDS_H

#include "config/config.h"
#include "util/err.h"

/* 0: the job can be run; -1: the message says why not, and names the field. */
int run_fields_check(const struct config *c, struct err *e);
/* Is the field an input of the run? */
int run_field_is_told(const struct config *c, enum config_field f);
/* transformers' key of a size, for a job without a file of its model; NULL: none. */
const char *run_field_key(const struct config *c, enum config_field f);

#endif
