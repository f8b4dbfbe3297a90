/*
 * Look-ups: a caller that asks dlsym() or CUDA for a hooked function gets its wrapper, which
 * then calls the function that the look-up found. The real look-up always comes first, and its
 * result is only ever replaced by a wrapper of the same interface.
 */
#ifndef PRELOAD_LOOKUP_H
#define PRELOAD_LOOKUP_H

#include <stdint.h>

#include "hooks/hooks.h"

/*
 * The row that cuGetProcAddress(NAME, VERSION, FLAGS) names: NAME is a base name (cuMemAlloc) or an
 * exported one. NULL: none that we know. VERSION must not be later than CUDA_VERSION, for later
 * interfaces are not known here.
 */
const struct hook *lookup_choose(const char *name, int version, uint64_t flags);

/* Writes the number of look-ups of each kind to the trace. */
void lookup_describe(void);

#endif
