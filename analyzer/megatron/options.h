/* Options of Megatron-LM's command line that this family does not count. */
#ifndef MEMTRACE_MEGATRON_OPTIONS_H
#define MEMTRACE_MEGATRON_OPTIONS_H

#include "estimate/inputs.h"

/* Rejects options that change many bytes (in->failed), and notes the others. */
void check_megatron_options(struct inputs *in);

#endif
