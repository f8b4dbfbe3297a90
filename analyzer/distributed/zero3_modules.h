#ifndef MEMTRACE_DISTRIBUTED_ZERO3_MODULES_H
#define MEMTRACE_DISTRIBUTED_ZERO3_MODULES_H

#include "distributed/zero3.h"

/* Installs ZeRO-3's module hooks in the machine. */
void zero3_hook_modules(struct machine *m);

#endif
