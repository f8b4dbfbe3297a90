/* Blocks that take the place of others: tensors that grow, and parameters that are converted. */
#ifndef MEMTRACE_METRICS_REPLACED_H
#define MEMTRACE_METRICS_REPLACED_H

#include "metrics/metrics_pass.h"

/* A block is allocated, or freed, before the moment. `l`: of its stack. */
void metrics_note_block(struct device_pass *d, struct stack_levels *l, const struct mt_record *r);
void metrics_note_freed(struct device_pass *d, const struct mt_record *was);

void metrics_find_growing(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live);
/* In an evaluation, a tensor that grows is the results so far, and so is what a library gathers. */
void metrics_find_grown_results(const struct metrics_pass *p, const struct device_pass *d);
/* Notes a row of blocks of any size, each of which replaced one of half its size; `change`: bytes
 * of a new block, or the negative ones of a freed block. */
void metrics_note_converted(struct conversions *c, bytes change);
/* Parameters that replaced blocks of half their size. */
void metrics_find_widened(const struct metrics_pass *p, const struct device_pass *d,
			  const struct snapshot *live);

#endif
