/* Writes one event of the calling thread into the recording. */
#ifndef PRELOAD_EVENT_H
#define PRELOAD_EVENT_H

#include <memtrace/trace.h>
#include <stdint.h>

/* A new recording begins: every thread gets a new entry in its tables. */
void event_begin(void);

/* Which recording it is: a forked child starts another. */
uint32_t event_generation(void);

/* The calling thread's id in the tables; MT_NO_THREAD if they are full or busy. */
uint16_t event_thread(void);

/* Writes one record with the current time. Returns its sequence number, or MT_UNKNOWN if the event
 * was lost or events are not recorded. */
uint64_t event_write(enum mt_event kind, unsigned device, uint64_t address, int64_t bytes,
		     uint32_t stack);

/* An allocation of REQUESTED bytes failed for good; SEQUENCE is its record, FREE_BYTES the free
 * memory of the device (MT_UNKNOWN: not known). Protects the record and wakes the helper thread,
 * which prints one line. */
void event_out_of_memory(uint64_t sequence, uint64_t requested, uint64_t free_bytes);

/* Returns 1 and the latest failure if one was reported since the last call. */
int event_take_out_of_memory(uint64_t *requested, uint64_t *free_bytes);

/* In a forked child: the parent's failure is not the child's. */
void event_forget(void);

#endif
