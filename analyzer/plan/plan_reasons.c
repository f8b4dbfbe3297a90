#include "plan/plan_reasons.h"

#include <ctype.h>
#include <stdlib.h>

#include "util/order.h"

/* Compares two reasons without their numbers. */
static int compare(const char *x, const char *y)
{
	for (;; x++, y++) {
		while (isdigit((unsigned char)*x) || *x == '.')
			x++;
		while (isdigit((unsigned char)*y) || *y == '.')
			y++;
		if (*x != *y || !*x)
			return (unsigned char)*x - (unsigned char)*y;
	}
}

static int by_reason(const void *a, const void *b)
{
	const struct plan_layout *x = *(const struct plan_layout *const *)a;
	const struct plan_layout *y = *(const struct plan_layout *const *)b;
	int by = compare(x->reason, y->reason);

	return by ? by : ORDER(x - y, 0);
}

/* Puts a reason into its place among the most frequent. Returns their new number. */
static size_t insert(struct plan_reason *top, size_t count, struct plan_reason found)
{
	size_t at = 0;

	while (at < count && top[at].count >= found.count)
		at++;
	if (at == PLAN_REASONS)
		return count;
	count += count < PLAN_REASONS;
	for (size_t i = count - 1; i > at; i--)
		top[i] = top[i - 1];
	top[at] = found;
	return count;
}

size_t plan_reasons(const struct plan *plan, struct plan_reason top[PLAN_REASONS])
{
	const struct plan_layouts *list = &plan->discarded;
	const struct plan_layout **by = xcalloc(list->count + 1, sizeof(struct plan_layout *));
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		by[i] = &list->at[i];
	qsort(by, list->count, sizeof(*by), by_reason);
	for (size_t i = 0, next; i < list->count; i = next) {
		struct plan_reason r = { by[i]->reason, 0 };

		for (next = i; next < list->count && !compare(by[i]->reason, by[next]->reason);
		     next++)
			r.count += by[next]->count;
		count = insert(top, count, r);
	}
	free(by);
	return count;
}
