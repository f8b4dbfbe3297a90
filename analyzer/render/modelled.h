/* The bounds of what a simulated device models instead of measures: CUDA's context and NCCL. */
#ifndef MEMTRACE_RENDER_MODELLED_H
#define MEMTRACE_RENDER_MODELLED_H

#include "report/report.h"

/* Is the owner of that key modelled in this rank's run? */
int is_modelled(const struct rank *r, const char *owner);
/* The bounds of its bytes, after the tables' thousandths (context.def, nccl.def). */
void modelled_bounds(const struct rank *r, const char *owner, bytes size, bytes *low, bytes *high);

#endif
