/* Estimates as text. */
#ifndef RENDER_ESTIMATE_TEXT_H
#define RENDER_ESTIMATE_TEXT_H

#include "render/estimate_answer.h"
#include "util/terminal.h"

/* Components as rows and systems as columns; one system alone term by term. */
void estimate_text(const struct answer *a, const struct style *style, struct buf *out);
/* Every term called `id` (or `system.id`): formula, letters, source, number. Returns 0 if no system
 * has one. */
int estimate_explain(const struct answer *a, const char *id, const struct style *style,
		     struct buf *out);
/* The table of document 002 as DeepSpeed's tool prints it. */
void estimate_deepspeed(const struct estimate *e, struct buf *out);

#endif
