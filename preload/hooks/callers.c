#include "hooks/callers.h"

#include <errno.h>

#include "symbols/resolve.h"
#include "symbols/scope.h"

void callers_forget(struct callers *c)
{
	for (unsigned i = 0; i < CALLERS; i++)
		atomic_store(&c->list[i].function, NULL);
	atomic_store(&c->count, 0);
}

void *callers_find(struct callers *c, const void *caller, const char *symbol, int *is_beside)
{
	struct resolve_range o = resolve_range(caller);
	struct scope_choice s = scope_choose(symbol, caller);
	void *function = s.chosen ? s.chosen : s.first, *first;
	unsigned i;
	int e = errno;

	if (!function)
		function = resolve_beside(caller, symbol);
	*is_beside = callers_are_within(function, o.low, o.high);
	errno = e;
	if (!function || !o.high || atomic_load(&c->count) >= CALLERS)
		return function;
	i = atomic_fetch_add(&c->count, 1);
	if (i >= CALLERS)
		return function;
	c->list[i].low = o.low;
	c->list[i].high = o.high;
	atomic_store_explicit(&c->list[i].function, function, memory_order_release);
	first = atomic_load(&c->list[0].function);
	if (c->differ && first && first != function)
		c->differ();
	return function;
}
