/* The saving of a remedy as JSON. */
#ifndef MEMTRACE_SAVING_JSON_H
#define MEMTRACE_SAVING_JSON_H

#include "diagnose/diagnose.h"

#include <jansson.h>

/* Sets saving_bytes, null if it is unknown or a bound; of a bound saving_bound, which says what it
 * is, and saving_bound_bytes. */
void saving_set_json(json_t *remedy, const struct remedy *r);

#endif
