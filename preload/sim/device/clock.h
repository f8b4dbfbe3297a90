/* The host's time as the simulated device counts it, in nanoseconds, with CUDASIM_STREAMS=timed.
 *
 * It advances by a fixed cost for each launch, by what the host waits for, and by the pauses of the
 * job between its calls (compilation, input) of a tenth of a second and more, in whole tenths.
 * Shorter work of the host is not measured, so that the same job takes the same time again, on a
 * busy machine too.
 *
 * A thread that asks for events and never queues work (NCCL's watchdog in PyTorch) sleeps and polls
 * by real time, while a simulated step takes another time than a real one. Its sleeps on a
 * condition variable therefore end by this clock (pthread_cond_timedwait() is here), and the thread
 * that queues work lets it poll at that moment.
 */
#ifndef CUDASIM_CLOCK_H
#define CUDASIM_CLOCK_H

#include <stdint.h>

/* A thread that queues work made a call. */
void clock_call(void);
/* The call waited for another process, which a GPU would do instead of the host. */
void clock_skip(void);
void clock_spend(uint64_t ns);
/* The host waited until this time. */
void clock_reach(uint64_t time);
uint64_t clock_host(void);
/* The time that a thread which only watches sees: it is marked as one by this call. */
uint64_t clock_watch(void);
/* Threads that watch, and whose sleep is over, poll now. The caller holds no lock of the device. */
void clock_let_watch(void);

#endif
