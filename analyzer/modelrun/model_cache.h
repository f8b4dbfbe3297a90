/* Results of runs, one JSON file each under ~/.cache/memtrace/models. A key is the whole text that
 * decides a result. */
#ifndef MODELRUN_MODEL_CACHE_H
#define MODELRUN_MODEL_CACHE_H

#include <jansson.h>
#include <stdint.h>

#include "util/err.h"

/* A number that tells one content of a file from another. */
int model_cache_hash(const char *path, uint64_t *hash, struct err *e);

/* The result of that key, to be released; NULL: none is kept. */
json_t *model_cache_find(const char *key);
/* Failures are ignored: the result is then computed again. */
void model_cache_keep(const char *key, json_t *result);

#endif
