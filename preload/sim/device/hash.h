/*
 * Hash tables of the simulated device: uthash. Include this header rather than <uthash.h>, which
 * answers a failed allocation with exit(-1). Here the element is not added, the table stays as
 * it was, and hash_was_full becomes true.
 */
#ifndef CUDASIM_HASH_H
#define CUDASIM_HASH_H

#include <stdbool.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((void)(element), hash_was_full = true)
#define uthash_fatal(message) abort() /* not reached: HASH_NONFATAL_OOM */
static _Thread_local bool hash_was_full __attribute__((unused));

#include <uthash.h>

#if defined __GNUC__ && !defined __clang__
/* gcc -fanalyzer does not follow an element through the links of the table, and calls it a leak. */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#endif
