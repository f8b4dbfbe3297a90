/* Estimates as JSON. */
#ifndef MEMTRACE_ESTIMATE_JSON_H
#define MEMTRACE_ESTIMATE_JSON_H

#include "render/estimate_answer.h"

void estimate_json(const struct answer *a, struct buf *out);

#endif
