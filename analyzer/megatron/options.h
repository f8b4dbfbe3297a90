/* Options of Megatron-LM's command line that this family does not count. */
#ifndef MEMTRACE_MEGATRON_OPTIONS_H
#define MEMTRACE_MEGATRON_OPTIONS_H

#include "estimate/inputs.h"

/* An error for what changes many bytes (in->failed), a note for the rest. */
void check_megatron_options(struct inputs *in);

#endif
