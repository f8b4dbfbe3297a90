/* The coordinator: which parameters are gathered, and when. */
#ifndef MEMTRACE_DISTRIBUTED_ZERO3_COORDINATOR_H
#define MEMTRACE_DISTRIBUTED_ZERO3_COORDINATOR_H

#include "distributed/zero3.h"

/* The engine's forward pass begins. */
void zero3_before_forward(struct machine *m, struct zero3 *z);
/* Before a module with this weight (NULL: none) and the bias beside it runs. */
void zero3_fetch(struct machine *m, struct zero3 *z, struct param *weight);
/* After it. */
void zero3_release_params(struct machine *m, struct zero3 *z, struct param *weight);
/* The parameters that persist are gathered after a step. */
void zero3_gather_all(struct machine *m, struct zero3 *z);
void zero3_free_all(struct machine *m, struct zero3 *z);
/* The host waits until at most two of the events are outstanding. */
void zero3_wait_oldest(struct machine *m, int stream, int64_t *events, size_t *count);
void zero3_note_event(struct machine *m, int stream, int64_t *events, size_t *count);

#endif
