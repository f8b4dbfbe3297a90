/* Models that a training may not train: teachers, frozen encoders, networks in a loss. */
#ifndef MEMTRACE_METRICS_MODELS_H
#define MEMTRACE_METRICS_MODELS_H

#include "metrics/metrics_pass.h"

/* Notes a block that is allocated before the moment, with the tags of its stack. */
void metrics_note_mode(struct device_pass *d, bytes size, stack_tags tags);
/* Adds to removed_by, of the stacks whose calls need no graph by the source of the job. */
void metrics_remove_by_source(struct metrics_pass *p);
/* Sets buffers, buffer_blocks, evaluation_mode, roots, moved_models, loss_network, first_model,
 * teacher_graph, rollout_graph. The passes of the moment are to be known.
 */
void metrics_find_models(const struct metrics_pass *p, const struct device_pass *d,
			 const struct snapshot *live);

#endif
