#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/real.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"
#include "memory/cuda.h"
#include "symbols/resolve.h"
#include "symbols/scope.h"

struct real_functions real_functions;

void *real_default(void *slot, const char *symbol)
{
	void *f = __atomic_load_n((void **)slot, __ATOMIC_RELAXED), *none = NULL;

	if (__builtin_expect(!f, 0)) {
		f = resolve(symbol);
		/* does not replace a function that a look-up found meanwhile */
		if (f && !__atomic_compare_exchange_n((void **)slot, &none, f, 0, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED))
			f = none;
		if (f)
			cuda_uses(symbol, f);
	}
	return f;
}

/*
 * If a process has two copies of a library, the real function depends on the caller; and a
 * second copy may come at any time, with callers of its own. So the choice is made at the first
 * call with each return address, and kept with that address.
 */
#define SITES 1024u
#define PROBES 4u

static struct {
	struct lock lock;            /* of the threads that write */
	_Atomic uint64_t generation; /* counts changes by real_forget_choices() */
	struct {
		_Atomic uint64_t key; /* return address, slot and generation; 0: free */
		_Atomic(void *) f;
	} site[SITES];
} choice;

_Static_assert(sizeof(struct real_functions) / sizeof(void *) <= 256, "a slot's number has 8 bits");

static void *choose(void *slot, const char *symbol, const void *caller, uint64_t key, unsigned at)
{
	struct scope_choice c = scope_choose(symbol, caller);
	void *f = c.definitions > 1 && c.chosen ? c.chosen : NULL;

	if (!f || !__atomic_load_n((void **)slot, __ATOMIC_RELAXED)) {
		void *usual = real_default(slot, symbol);
		f = f ? f : usual;
	}
	if (!c.definitions || !f || !lock_acquire(&choice.lock, LOCK_MS(1)))
		return f;
	for (unsigned i = 0; i < PROBES; i++)
		if (!atomic_load(&choice.site[(at + i) % SITES].key)) {
			at = (at + i) % SITES;
			break;
		}
	atomic_store(&choice.site[at].key, 0); /* readers skip the slot while it changes */
	atomic_store(&choice.site[at].f, f);
	atomic_store(&choice.site[at].key, key);
	lock_release(&choice.lock);
	return f;
}

void *real_find(void *slot, const char *symbol, const void *caller)
{
	uint64_t key = (uint64_t)(uintptr_t)caller << 12 |
		       (uint64_t)((void **)slot - (void **)&real_functions) << 4 |
		       (atomic_load_explicit(&choice.generation, memory_order_relaxed) & 15);
	unsigned at = (unsigned)(key * 0x9e3779b97f4a7c15u >> 54) % SITES;

	for (unsigned i = 0; i < PROBES; i++) {
		unsigned k = (at + i) % SITES;
		void *f;
		if (atomic_load_explicit(&choice.site[k].key, memory_order_acquire) != key)
			continue;
		f = atomic_load_explicit(&choice.site[k].f, memory_order_acquire);
		if (atomic_load_explicit(&choice.site[k].key, memory_order_relaxed) == key)
			return f;
	}
	return choose(slot, symbol, caller, key, at);
}

void real_forget(void)
{
	lock_release(&choice.lock);
}

void real_forget_choices(void)
{
	atomic_fetch_add(&choice.generation, 1);
	for (unsigned i = 0; i < SITES; i++)
		atomic_store(&choice.site[i].key, 0);
}
