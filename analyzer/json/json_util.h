/* Helpers for all JSON output. */
#ifndef MEMTRACE_JSON_UTIL_H
#define MEMTRACE_JSON_UTIL_H

#include <jansson.h>
#include <string.h>

#include "util/buf.h"
#include "report/member_json.h"
#include "report/report.h"
#include "util/util.h"

/* A string of any bytes, made valid UTF-8; null for NULL. */
static inline json_t *text(const char *s)
{
	json_t *j = s ? json_string(s) : json_null();
	struct buf b = { 0 };

	if (j)
		return j;
	buf_add_utf8(&b, (struct str){ s, strlen(s) });
	j = json_stringn(b.text ? b.text : "", b.length);
	buf_release(&b);
	return j;
}

/* A rank; null for NO_RANK. */
static inline json_t *number(int n)
{
	return n == NO_RANK ? json_null() : json_integer(n);
}

/* null for UNKNOWN_BYTES. */
static inline json_t *size(bytes n)
{
	return n == UNKNOWN_BYTES ? json_null() : json_integer(n);
}

/* Sets a key to a new value, which the object owns. */
static inline void set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) < 0)
		BUG("json");
}

/* For json_dump_callback(): adds to a struct buf. */
static inline int add_json_part(const char *part, size_t length, void *out)
{
	buf_add(out, part, length);
	return 0;
}

/* The types of members.def that a record writes otherwise (report/member_json.h). */
#define put_WORD(v) text(v)
#define put_OWNED(v) text(v)
#define put_TEXT(v) text(v)
#define put_MODULE(v) text(*(v) ? (v) : NULL)
#define put_MESSAGE(v) text(v)
/* Those of estimate/members.def. */
#define put_WIDE(v) json_integer((json_int_t)((v) > INT64_MAX ? INT64_MAX : (v)))
#define put_OPTIONAL_FLAG(v) ((v) < 0 ? NULL : json_boolean(v))
#define put_NONZERO(v) ((v) ? json_integer(v) : json_null())

/* A row of a table of members, as a member of the object `j` that describes `x`. */
#define PUT_MEMBER(key, type, value) member_set(j, key, put_##type(value));
/* The same of members.def, whose rows say in which object they are: those of a record are left out.
 */
#define PUT(key, type, value, in) PUT_##in(key, type, value)
#define PUT_REPORT(key, type, value) PUT_MEMBER(key, type, value)
#define PUT_BOTH(key, type, value) PUT_MEMBER(key, type, value)
#define PUT_RECORD(key, type, value)

#endif
