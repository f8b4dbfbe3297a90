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

int plan_discard(struct plan_search *s, enum discard why, const char *format, ...)
{
	struct plan *plan = s->plan;
	struct plan_layout *kept;
	va_list args;

	if (s->counting)
		return 0;
	plan->discarded_counts[why]++;
	if (plan->discarded.count >= MAX_LISTED)
		return 0;
	kept = plan_layouts_append(&plan->discarded, &s->now);
	kept->why = why;
	kept->count = 1;
	va_start(args, format);
	kept->reason = xvasprintf(format, args);
	va_end(args);
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
