/* Configuration files of every format. The format is recognised by the keys of the file. */
#ifndef MEMTRACE_FILES_H
#define MEMTRACE_FILES_H

#include "readers/reader.h"

/* Reads a file: the native JSON, config.json, ds_config.json, Accelerate's YAML, Trainer's
 * arguments, Megatron's YAML. A later value of a field replaces an earlier one. */
int config_read_file(struct config *c, const char *path, struct err *e);

/* Initialises a reader, with read_file and read_text set. */
void reader_init(struct reader *r, struct config *c, const char *origin, struct err *e);

#endif
