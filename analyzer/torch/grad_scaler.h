/* torch.amp.GradScaler, and a loss that is multiplied by a number. */
#ifndef MEMTRACE_GRAD_SCALER_H
#define MEMTRACE_GRAD_SCALER_H

#include "torch/machine.h"

/* torch.amp.GradScaler: blocks of one number each. */
struct scaler {
	tensor scale, growth, found[3];
};
/* The loss times a number. */
tensor loss_times(struct machine *m, tensor loss);
tensor scaler_scale(struct machine *m, struct scaler *g, tensor loss);
void scaler_unscale(struct machine *m, struct scaler *g);
void scaler_update(struct machine *m, struct scaler *g);

#endif
