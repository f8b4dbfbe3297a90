/* The generator of a GAN in a step of its discriminator. */
#ifndef MEMTRACE_SOURCE_GENERATED_H
#define MEMTRACE_SOURCE_GENERATED_H

#include "source/job_source.h"

/* Was a block of that stack made by a part of a model whose result another part takes, as a
 * generator's, where the step behind them trains that other part alone? */
int job_source_is_generated(struct job_source *s, uint32_t stack);

#endif
