/* Recognises a secret by its own form. */
#ifndef PRELOAD_SECRET_LOOKS_H
#define PRELOAD_SECRET_LOOKS_H

#include <stddef.h>

/* The end of the secret whose form begins at P of the text; P if none begins there. *begin is moved
 * behind a beginning that stays ("Bearer", a URL's user). */
size_t looks_end(const char *text, size_t n, size_t p, size_t *begin);

/* Does V contain an unbroken run of at least LEAST letters and digits that no person would choose?
 */
int looks_random(const char *v, size_t n, size_t least);

/* Is V a reference to the value: ${TOKEN}, $TOKEN? */
int looks_referring(const char *v, size_t n);

#endif
