/* Parameters that an optimizer gets by their names. */
#ifndef MEMTRACE_FILTERED_H
#define MEMTRACE_FILTERED_H

#include "source/optimized.h"

/*
 * Adds what `[p for name, p in model.named_parameters() if CONDITION]` takes, where CONDITION is
 * one text in the name, or at its begin, or not. `at` is the place of `named_parameters` in `text`,
 * a part of the file's. Returns 0 if the condition is another one.
 */
int filtered_add(struct optimized *o, const struct python_file *f, struct str text, size_t at);

#endif
