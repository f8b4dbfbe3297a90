/* Text as JSON. */
#ifndef MEMTRACE_JSON_TEXT_H
#define MEMTRACE_JSON_TEXT_H

#include <jansson.h>

#include "util/buf.h"

/* Appends "text", quoted and escaped. Bytes that are not UTF-8 are replaced. */
void add_json_string(struct buf *b, struct str text);

/* Sets a member of an object to text; the key and the text need not be UTF-8. */
void json_set_text(json_t *object, const char *key, const char *text);

#endif
