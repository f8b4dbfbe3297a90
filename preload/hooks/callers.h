/*
 * A function of a library that is defined here too, for those that call it through the PLT: the
 * real one of each object that calls it, since a process may have two copies of PyTorch. By object,
 * and not by return address as in hooks/real.c: the calls are in thousands of places.
 */
#ifndef PRELOAD_CALLERS_H
#define PRELOAD_CALLERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/export.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x) /* the name of a function, which is a macro, as text */
#define CALLERS 16         /* objects whose functions are remembered */

struct callers {
	void (*differ)(void); /* called if two objects have different ones; or NULL */
	atomic_uint count;    /* of the rows that are filled, or being filled */
	struct {
		_Atomic(void *) function; /* NULL: not filled yet */
		uintptr_t low, high;
	} list[CALLERS];
};

/* For callers_real(): looks for the function, and remembers it. */
void *callers_find(struct callers *c, const void *caller, const char *symbol, int *is_beside);

/* A library was unloaded. */
void callers_forget(struct callers *c);

static inline int callers_are_within(const void *function, uintptr_t low, uintptr_t high)
{
	return (uintptr_t)function >= low && (uintptr_t)function < high;
}

/* The function of that name to which the loader would have bound `caller`, a return address; NULL:
 * there is none. `*is_beside`: it is in the object that calls it. */
static inline void *callers_real(struct callers *c, const void *caller, const char *symbol,
				 int *is_beside)
{
	for (unsigned i = 0; i < CALLERS; i++) {
		void *f = atomic_load_explicit(&c->list[i].function, memory_order_acquire);

		if (f && callers_are_within(caller, c->list[i].low, c->list[i].high)) {
			*is_beside = callers_are_within(f, c->list[i].low, c->list[i].high);
			return f;
		}
	}
	return callers_find(c, caller, symbol, is_beside);
}

#endif
