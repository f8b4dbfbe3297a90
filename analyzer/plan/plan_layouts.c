#include "plan/plan_layouts.h"

#include <stdarg.h>
#include <stdlib.h>

#define MAX_LISTED 200000 /* discarded layouts in the list; further ones are only counted */

struct plan_layout *plan_layouts_append(struct plan_layouts *list, const struct plan_layout *l)
{
	list->at = grow(list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count] = *l;
	return &list->at[list->count++];
}

void plan_layouts_discard(struct plan *plan, struct plan_layout *l)
{
	plan->discarded_counts[l->why]++;
	l->count = 1;
	if (plan->discarded.count < MAX_LISTED)
		plan_layouts_append(&plan->discarded, l);
	else
		free(l->reason);
}

int plan_discard(struct plan_search *s, enum discard why, const char *format, ...)
{
	struct plan_layout gone = s->now;
	va_list args;

	if (s->counting)
		return 0;
	gone.why = why;
	va_start(args, format);
	gone.reason = xvasprintf(format, args);
	va_end(args);
	plan_layouts_discard(s->plan, &gone);
	return 0;
}

void plan_layouts_release(struct plan_layouts *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->at[i].stages);
		free(list->at[i].reason);
	}
	free(list->at);
}
