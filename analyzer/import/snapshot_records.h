/* The records of a memory snapshot's device, with the counters of the header: blocks, segments and
 * what is mapped of expandable segments. */
#ifndef MEMTRACE_IMPORT_SNAPSHOT_RECORDS_H
#define MEMTRACE_IMPORT_SNAPSHOT_RECORDS_H

#include "import/snapshot_stacks.h"

/* Since the first event. */
uint64_t snapshot_time_ns(const struct snapshot_reading *s, struct pickled event);
/* With the time, stack and thread of the event. */
struct mt_record snapshot_record_of(struct snapshot_reading *s, struct pickled event);
/* `kind`: MT_TENSOR_ALLOC, MT_DEVICE_ALLOC or MT_MAP; of a free too. A free of what is not known
 * does nothing. */
void snapshot_alloc(struct snapshot_reading *s, struct mt_record r, int kind, uint64_t address,
		    int64_t size);
void snapshot_free(struct snapshot_reading *s, struct mt_record r, int kind, uint64_t address,
		   int64_t size);
void snapshot_put_reserved(struct snapshot_reading *s);

#endif
