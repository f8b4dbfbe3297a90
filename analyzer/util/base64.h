/* Base64, the usual alphabet and the one for URLs. */
#ifndef MEMTRACE_BASE64_H
#define MEMTRACE_BASE64_H

#include <stddef.h>

/* Decodes up to the padding. To be freed; NULL: another character. The result ends with a zero that
 * `length` does not count. */
char *base64_decode(const char *text, size_t *length);

#endif
