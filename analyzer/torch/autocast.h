/* torch.autocast. */
#ifndef MEMTRACE_TORCH_AUTOCAST_H
#define MEMTRACE_TORCH_AUTOCAST_H

#include "torch/machine.h"

/* with torch.autocast(dtype): F16 or BF16. The end clears the cache of copies. */
void begin_autocast(struct machine *m, enum dtype type);
void end_autocast(struct machine *m);
/* x in autocast's type if autocast is on. The caller owns it. */
tensor autocasted(struct machine *m, tensor x);
void clear_autocast(struct machine *m);
/* A parameter in autocast's type, or as it is. The caller owns it. */
tensor autocast_weight(struct machine *m, struct param *p);

#endif
