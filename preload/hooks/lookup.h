/*
 * Look-ups: who asks dlsym() or CUDA for a hooked function gets its wrapper, which then calls what
 * the look-up had found. The real look-up always comes first, and what it found is only ever
 * replaced by a wrapper of the very same interface.
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

/* Writes how many look-ups there were, and of what kind, to the trace. */
void lookup_describe(void);

#endif
