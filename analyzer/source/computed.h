/* Lines that compute what they allocate. */
#ifndef MEMTRACE_SOURCE_COMPUTED_H
#define MEMTRACE_SOURCE_COMPUTED_H

#include "source/job_source.h"

/* Does the job's own line on a stack, the innermost one, compute a tensor from others that are on
 * the device: does it move nothing there, load nothing, and name no device? */
int job_source_computes(struct job_source *s, uint32_t stack);
/* Does that line make a triangle, as a mask of all pairs of positions is? */
int job_source_masks(struct job_source *s, uint32_t stack);
/* Does that line convert to float64? */
int job_source_doubles(struct job_source *s, uint32_t stack);

#endif
