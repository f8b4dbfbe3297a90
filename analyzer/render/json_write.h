/*
 * Writes a value of jansson as compact JSON, with the text forms that these documents have always
 * had. json_dumps() cannot give them: it prints 4 as 4.0 and 1e-05 as 1e-5, has no fixed number of
 * decimals, and escapes a line feed as \n rather than \u000a.
 */
#ifndef RENDER_JSON_WRITE_H
#define RENDER_JSON_WRITE_H

#include <jansson.h>

#include "util/buf.h"

/* The form of real numbers. */
struct json_reals {
	int digits;
	int is_fixed; /* %.*f with that many decimals, else %.*g */
};

void json_write(const json_t *value, struct json_reals reals, struct buf *out);

#endif
