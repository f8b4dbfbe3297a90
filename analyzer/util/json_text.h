/* Text of any bytes in a value of jansson. */
#ifndef MEMTRACE_JSON_TEXT_H
#define MEMTRACE_JSON_TEXT_H

#include <jansson.h>

/* Sets a member of an object to text; the key and the text need not be UTF-8. */
void json_set_text(json_t *object, const char *key, const char *text);

#endif
