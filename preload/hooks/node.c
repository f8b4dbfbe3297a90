#include "hooks/node.h"

#include <stdatomic.h>
#include <stddef.h>

#include "symbols/resolve.h"

typedef uint64_t thread_number(void);

static struct {
	_Atomic(thread_number *) thread;
	atomic_int has_no_thread; /* this version of PyTorch has no such function */
} real;

void node_forget(void)
{
	atomic_store(&real.thread, NULL);
	atomic_store(&real.has_no_thread, 0);
}

uint64_t node_thread(void)
{
	thread_number *f = atomic_load_explicit(&real.thread, memory_order_relaxed);

	if (__builtin_expect(!f, 0)) {
		if (atomic_load_explicit(&real.has_no_thread, memory_order_relaxed))
			return 0;
		f = (thread_number *)resolve("_ZN2at14RecordFunction15currentThreadIdEv");
		if (!f) {
			atomic_store(&real.has_no_thread, 1);
			return 0;
		}
		atomic_store_explicit(&real.thread, f, memory_order_relaxed);
	}
	return f();
}
