/* transformers' Falcon: modeling_falcon.py. */
#ifndef MEMTRACE_FAMILIES_PLAIN_FALCON_H
#define MEMTRACE_FAMILIES_PLAIN_FALCON_H

#include "families/plain_model.h"

extern const struct plain_code plain_falcon;

#endif
