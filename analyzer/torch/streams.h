/*
 * The device's work queue as far as memory sees it. A block that another stream used
 * (record_stream) comes back to the allocator only when the work queued there before it was freed
 * is known to be complete. Work completes in order, as late as the program could observe it, which
 * is what the simulated device does (preload/sim/timeline.h): when the host waits for an event, a
 * stream or the device, or when too much work follows. Between that and at once is a GPU.
 */
#ifndef MEMTRACE_STREAMS_H
#define MEMTRACE_STREAMS_H

#include "torch/machine.h"

/* `count` more pieces of work. */
void stream_work(struct machine *m, int stream, int64_t count);
/* Event.record(): what is queued so far. */
int64_t stream_event(struct machine *m, int stream);
/* stream.wait_stream(on) */
void stream_wait(struct machine *m, int stream, int on);
/* tensor.record_stream(stream) */
void record_stream(tensor t, int stream);
/* event.synchronize() */
void host_wait_event(struct machine *m, int stream, int64_t event);
/* stream.synchronize(), .item(), a copy from or to pageable memory of the host */
void host_wait(struct machine *m, int stream);
void host_wait_all(struct machine *m);

/* For the machine: a freed block that other streams used, and what of these is complete. */
void streams_defer_free(struct machine *m, struct allocation *block, unsigned used);
void streams_process_events(struct machine *m);
void streams_release(struct machine *m);

#endif
