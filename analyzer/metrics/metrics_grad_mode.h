/* Whether the operations of each thread make nodes of the autograd graph, as the job recorded it
 * (MT_GRAD_MODE): under torch.no_grad(), or of parameters that need no gradients, they make none. */
#ifndef MEMTRACE_METRICS_GRAD_MODE_H
#define MEMTRACE_METRICS_GRAD_MODE_H

#include "metrics/metrics_pass.h"

void metrics_grad_modes_init(struct grad_modes *g, size_t stacks);
void metrics_grad_modes_release(struct grad_modes *g);

/* An event MT_GRAD_MODE. */
void metrics_note_grad_mode(struct grad_modes *g, const struct mt_record *r);

/* Events are missing here. */
void metrics_grad_modes_gap(struct grad_modes *g);

#endif
