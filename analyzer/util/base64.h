/* Base64, the usual alphabet and the one for URLs. */
#ifndef MEMTRACE_BASE64_H
#define MEMTRACE_BASE64_H

#include "util/buf.h"

#include <stddef.h>

/* Decodes up to the padding. To be freed; NULL: another character. The result ends with a zero that
 * `length` does not count. */
char *base64_decode(const char *text, size_t *length);

/* Adds the usual form, with padding. */
void base64_encode(struct buf *to, const void *data, size_t length);

#endif
