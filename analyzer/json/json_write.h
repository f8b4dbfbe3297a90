/*
 * Writes a value of jansson as compact JSON, with the text forms that these documents have always
 * had. json_dumps() cannot give them: it prints 4 as 4.0 and 1e-05 as 1e-5, has no fixed number of
 * decimals, and escapes a line feed as \n rather than \u000a.
 */
#ifndef MEMTRACE_JSON_WRITE_H
#define MEMTRACE_JSON_WRITE_H

#include <jansson.h>

#include "util/buf.h"

/* The form of real numbers. */
struct json_reals {
	int digits;
	int is_fixed; /* %.*f with that many decimals, else %.*g */
};

void json_write(const json_t *value, struct json_reals reals, struct buf *out);

/* An object whose text is written member by member: the tree of a plan's layouts takes five times
 * the memory of their text, and more time than the plan. */
struct json_members {
	struct buf *out;
	struct json_reals reals;
	int count; /* of those that are written */
};

/* `reals`: the form of all real numbers in it. */
struct json_members json_members_begin(struct json_reals reals, struct buf *out);
/* Frees the value. */
void json_members_add(struct json_members *m, const char *key, json_t *value);
/* An array of `count` values; `row` makes one of them, which is freed before the next is made. */
void json_members_add_list(struct json_members *m, const char *key,
			   json_t *row(const void *list, size_t index), const void *list,
			   size_t count);
void json_members_end(const struct json_members *m);

#endif
