#include "diagnose/saving_json.h"

#include "util/util.h"

static void set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) < 0)
		BUG("json");
}

void saving_set_json(json_t *remedy, const struct remedy *r)
{
	int is_figure = r->bound == SAVING_ABOUT && r->saving != SAVING_UNKNOWN;

	set(remedy, "saving_bytes", is_figure ? json_integer(r->saving) : json_null());
	if (r->bound == SAVING_ABOUT)
		return;
	set(remedy, "saving_bound", json_string(saving_bound_name(r->bound)));
	set(remedy, "saving_bound_bytes", json_integer(r->saving));
}
