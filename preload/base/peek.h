/* Reads of memory of this process that may not exist. */
#ifndef PRELOAD_PEEK_H
#define PRELOAD_PEEK_H

#include <stddef.h>

/* Copies N bytes, 1 to 8, at OBJECT + OFFSET to OUT. Returns 0, or -1 where a wrong address would
 * be a fault. */
int peek(const void *object, int offset, void *out, size_t n);

#endif
