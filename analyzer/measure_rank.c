/* A device's measures, and the places they name, as the report keeps them. */
#include "diagnose.h"

#include "report.h"
#include "tables.h"

#include <stdlib.h>

static char *label_of_place(const struct tables *t, uint32_t place)
{
	struct buf label = { 0 };

	if (place == MT_NO_PLACE)
		return NULL;
	tables_add_label(t, place, &label);
	return label.length ? buf_take(&label) : NULL;
}

void diagnose_keep(struct rank *r, const struct measures *m, const struct tables *t)
{
	r->measures = xcalloc(1, sizeof(*r->measures));
	*r->measures = *m;
	r->measures->killed = r->end == END_KILLED && !m->failed;
	/* An error that the job caught, and that ended it in order, killed nothing. */
	r->measures->died = m->died && r->end != END_EXIT;
	r->leak_label = label_of_place(t, m->leak_place);
	r->repeat_label = label_of_place(t, m->repeat_place);
}
