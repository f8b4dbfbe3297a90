/*
 * Addresses that the calling thread's last event read or wrote. They lie on different pages, and
 * between two events the job's own data takes their places in the processor's caches. The next
 * event, which mostly needs the same addresses, prefetches them together instead of waiting for one
 * after the other. They are never read through: an address that is no longer valid costs nothing.
 */
#ifndef PRELOAD_LAST_EVENT_H
#define PRELOAD_LAST_EVENT_H

struct last_event {
	const void *next_record, *used;    /* the record after the last one, its segment's count */
	const void *device;                /* the device's counters */
	const void *thread, *frame, *code; /* the interpreter's, innermost */
	const void *stack;                 /* the slot of the stack's hash */
};

extern __thread struct last_event last_event
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline void last_event_prefetch(void)
{
	const struct last_event *e = &last_event;

	__builtin_prefetch(e->next_record, 1);
	__builtin_prefetch(e->used, 1);
	__builtin_prefetch(e->device, 1);
	__builtin_prefetch(e->thread);
	__builtin_prefetch(e->frame);
	__builtin_prefetch(e->code);
	__builtin_prefetch(e->stack);
	/* Without a statement that has an effect, gcc removes calls of this function. */
	__asm__ volatile("");
}

#endif
