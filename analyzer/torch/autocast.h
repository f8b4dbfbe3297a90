/* torch.autocast. */
#ifndef MEMTRACE_AUTOCAST_H
#define MEMTRACE_AUTOCAST_H

#include "torch/machine.h"

/* autocast(): on with F16 or BF16; ending it forgets the cached copies. */
void begin_autocast(struct machine *m, enum dtype type);
void end_autocast(struct machine *m);
/* x in autocast's type where that is on. */
tensor autocasted(struct machine *m, tensor x);
void clear_autocast(struct machine *m);
/* A parameter in autocast's type, or as it is. The caller owns it. */
tensor autocast_weight(struct machine *m, struct param *p);

#endif
