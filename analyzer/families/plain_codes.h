/* The forward passes that plain.def names: a model's own file defines each. */
#ifndef MEMTRACE_FAMILIES_PLAIN_CODES_H
#define MEMTRACE_FAMILIES_PLAIN_CODES_H

#include "families/plain_model.h"

#define PLAIN(type, code, class) extern const struct plain_code code;
#include "families/plain.def"
#undef PLAIN

#endif
