/* The JSON of each TYPE of members.def. WORD, TEXT, MESSAGE, OWNED, MODULE and NONZERO are defined
 * by the two that write: a record shortens its texts. */
#ifndef MEMTRACE_MEMBER_JSON_H
#define MEMTRACE_MEMBER_JSON_H

#include <jansson.h>
#include <math.h>

#include "report/report.h"
#include "util/util.h"

#define put_NUMBER(v) json_integer(v)
#define put_COUNT(v) json_integer(v)
#define put_INDEX(v) ((v) == NO_RANK ? json_null() : json_integer(v))
#define put_LONG(v) json_integer((json_int_t)((v) > INT64_MAX ? INT64_MAX : (v)))
#define put_BYTES(v) ((v) == UNKNOWN_BYTES ? json_null() : json_integer(v))
#define put_MAYBE_BYTES(v) put_BYTES(v)
#define put_ID(v) ((v) < 0 ? json_null() : json_integer(v))
#define put_TIME(v) json_integer(v)
#define put_SECONDS(v) json_real(isfinite(v) ? (v) : 0)
#define put_FLAG(v) json_boolean((v) != 0)
#define put_SURVIVAL(v) ((v) == SURVIVED_UNKNOWN ? json_null() : json_boolean((v) == SURVIVED_YES))
#define put_SCOPE(v) json_string(peak_scope_key(v))
#define put_CATEGORY(v) json_string(category_key(v))
#define put_PHASE(v) json_string(phase_name(v))
#define put_REAL(v) member_real(v)
#define put_OPTIONAL_WORD(v) ((v) ? put_WORD(v) : NULL)
#define put_OPTIONAL_BYTES(v) ((v) == UNKNOWN_BYTES ? NULL : json_integer(v))
#define put_PART(name) name##_json(x)
#define put_PART_OF(name) name##_json(of, x)

/* `v` is finite. */
static inline json_t *member_real(double v)
{
	json_t *j = json_real(v);

	if (!j)
		BUG("json");
	return j;
}

/* Sets a member, which the object owns. NULL: the object is without it. */
static inline void member_set(json_t *object, const char *key, json_t *value)
{
	if (value && json_object_set_new(object, key, value) < 0)
		BUG("json");
}

#endif
