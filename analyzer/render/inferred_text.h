/* An inferred configuration as text. */
#ifndef MEMTRACE_INFERRED_TEXT_H
#define MEMTRACE_INFERRED_TEXT_H

#include "infer/inferred.h"

void inferred_text(const struct inferred_config *i, struct buf *out);

#endif
