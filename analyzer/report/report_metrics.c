/* The metrics of a device, as the report keeps them. */
#include "report/report_metrics.h"

#include "attribution/stack_text.h"
#include "util/buf.h"

#include <stdlib.h>
#include <string.h>

static char *label_of_stack(const struct tables *t, uint32_t stack)
{
	struct buf label = { 0 };

	if (stack == MT_NO_STACK)
		return NULL;
	stack_add_label(t, stack, &label);
	return label.length ? buf_take(&label) : NULL;
}

/* A damaged trace may hold any number; within these bounds, the products of rules do not overflow.
 * A count that is in none of them may be as large as a size. */
#define MAX_AMOUNT (INT64_C(1) << 42)
#define MAX_FACTOR (INT64_C(1) << 16)

static int64_t bound(enum metric_unit unit)
{
	return unit == UNIT_BYTES || unit == UNIT_COUNT ? MAX_AMOUNT : MAX_FACTOR;
}

void report_clamp_metrics(struct metrics *m)
{
	for (size_t i = 0; i < metric_count; i++) {
		int64_t most = bound(metric_rows[i].unit);
		int64_t value = metric_value(m, &metric_rows[i]);

		value = value > most ? most : value < -most ? -most : value;
		memcpy((char *)m + metric_rows[i].offset, &value, sizeof(value));
	}
}

void report_keep_metrics(struct rank *r, const struct metrics *m, const struct tables *t)
{
	r->metrics = xcalloc(1, sizeof(*r->metrics));
	*r->metrics = *m;
	report_clamp_metrics(r->metrics);
	r->metrics->killed = r->end == END_KILLED && !m->failed;
	/* A failed allocation does not count as the end if the job exited in order. */
	r->metrics->died = m->died && r->end != END_EXIT;
	r->leak_label = label_of_stack(t, m->leak_stack);
	r->left_label = label_of_stack(t, m->left_stack);
	r->repeat_label = label_of_stack(t, m->repeat_stack);
	r->evaluated_label = label_of_stack(t, m->evaluated_stack);
	r->data_label = label_of_stack(t, m->data_stack);
	r->setup_label = label_of_stack(t, m->setup_stack);
	r->hooked_label = label_of_stack(t, m->hooked_stack);
	r->huge_label = label_of_stack(t, m->huge_stack);
	r->pinned_label = label_of_stack(t, m->pinned_stack);
}
