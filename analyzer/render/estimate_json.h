/* Estimates as JSON. */
#ifndef RENDER_ESTIMATE_JSON_H
#define RENDER_ESTIMATE_JSON_H

#include "render/estimate_answer.h"

void estimate_json(const struct answer *a, struct buf *out);

#endif
