/* The JSON of each TYPE of members.def. WORD, TEXT, OWNED, MODULE and NONZERO are defined by
 * the two that write: a record shortens its texts. */
#ifndef MEMTRACE_MEMBER_JSON_H
#define MEMTRACE_MEMBER_JSON_H

#include <jansson.h>
#include <math.h>

#include "report/report.h"

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
#define put_REAL(v) json_real(v)
#define put_PART(name) name##_json(x)
#define put_PART_OF(name) name##_json(of, x)

#endif
