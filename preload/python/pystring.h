/* A str of the interpreter. */
#ifndef PRELOAD_PYSTRING_H
#define PRELOAD_PYSTRING_H

#include <stdint.h>

#include "python/pylayout.h"

/* The id of the string with the characters of a str as UTF-8; 0: there is no room. */
uint32_t pystring_id(const struct layout *l, const void *u);

/* Does the str end with these characters, and has characters of ASCII alone? */
int pystring_ends(const struct layout *l, const void *u, const char *text);

#endif
