/* torch.amp.GradScaler, and a loss that is multiplied by a number. */
#ifndef MEMTRACE_TORCH_GRAD_SCALER_H
#define MEMTRACE_TORCH_GRAD_SCALER_H

#include "torch/machine.h"

/* Each tensor is one element. */
struct grad_scaler {
	tensor scale, growth, found[3];
};
/* The loss times a number; the caller owns it. */
tensor loss_times(struct machine *m, tensor loss);
tensor grad_scaler_scale(struct machine *m, struct grad_scaler *g, tensor loss);
void grad_scaler_unscale(struct machine *m, struct grad_scaler *g);
void grad_scaler_update(struct machine *m, struct grad_scaler *g);

#endif
