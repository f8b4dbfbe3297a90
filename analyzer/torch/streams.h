/* The work queues of the device's streams. A block that another stream used (record_stream) returns
 * to the allocator only when the work that was queued there before the free is known to be
 * complete. Work completes in order and as late as the program can observe, as on the simulated
 * device (preload/sim/device/timeline.h): when the host waits for an event, a stream or the device,
 * or when the queue is full. A GPU completes it earlier. */
#ifndef MEMTRACE_TORCH_STREAMS_H
#define MEMTRACE_TORCH_STREAMS_H

#include "torch/machine.h"

/* Queues `count` pieces of work. */
void stream_work(struct machine *m, int stream, int64_t count);
/* Event.record(): the number of pieces queued so far. */
int64_t stream_event(struct machine *m, int stream);
/* stream.wait_stream(on) */
void stream_wait(struct machine *m, int stream, int on);
/* tensor.record_stream(stream) */
void record_stream(tensor t, int stream);
/* event.synchronize() */
void host_wait_event(struct machine *m, int stream, int64_t event);
/* stream.synchronize(), .item(), a copy from or to pageable host memory */
void host_wait(struct machine *m, int stream);
void host_wait_all(struct machine *m);

/* For the machine. streams_defer_free(): frees a block once the streams that used it (bits) have
 * done so. streams_process_events(): returns the blocks of complete work to the allocator. */
void streams_defer_free(struct machine *m, struct allocation *block, unsigned used);
void streams_process_events(struct machine *m);
void streams_release(struct machine *m);

#endif
