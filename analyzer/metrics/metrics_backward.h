/* Blocks that backward passes have left and that are no gradients; and for what gradients are. */
#ifndef MEMTRACE_METRICS_BACKWARD_H
#define MEMTRACE_METRICS_BACKWARD_H

#include "metrics/metrics_pass.h"

/* `old`: bytes of the `old_blocks` live blocks without frames that backward passes of earlier steps
 * have made. */
void metrics_find_backward(const struct metrics_pass *p, struct device_pass *d,
			   const struct snapshot *live, bytes old, uint32_t old_blocks);

/* An event MT_PARAMETER. */
void metrics_note_parameter(struct metrics_pass *p, const struct mt_record *r);

#endif
