/* The buckets of Megatron-core's own FSDP (megatron_fsdp/param_and_grad_buffer.py): which
 * parameters are in one, and where. */
#ifndef MEMTRACE_DISTRIBUTED_UNIT_BUCKETS_H
#define MEMTRACE_DISTRIBUTED_UNIT_BUCKETS_H

#include "distributed/unit_buffers.h"

/* Fills the list of buckets. */
void unit_buckets_make(const struct unit_layout *c, struct unit_buffers *b);

#endif
