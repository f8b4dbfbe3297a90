/* Kernels that are compiled while the job runs. The first run of a kernel measures its
 * configurations and empties the L2 cache between the runs, by a buffer. The first step's tensors
 * are allocated in the cached block that this buffer leaves. */
#ifndef MEMTRACE_KERNELS_MEASURED_H
#define MEMTRACE_KERNELS_MEASURED_H

#include "torch/machine.h"

enum measured_kernel {
	/* those of torch.compile */
	ACTIVATION,
	ACTIVATION_BACKWARD,
	DROPOUT,
	DROPOUT_BACKWARD,
	OUTPUT_GATE,
	OUTPUT_GATE_BACKWARD,
	/* those of flash-linear-attention, which Triton compiles */
	FLA_CONV,
	FLA_CONV_BACKWARD,
	FLA_NORM,
	FLA_NORM_BACKWARD,
	FLA_SUMS,
	FLA_SCORES,
	FLA_PRODUCTS,
	FLA_STATES,
	FLA_OUTPUT,
	FLA_VALUES_BACKWARD,
	FLA_STATES_BACKWARD,
	FLA_KEYS_BACKWARD,
	FLA_PRODUCTS_BACKWARD
};

/* `size`: bytes of the buffer. */
void measure_kernel(struct machine *m, enum measured_kernel kernel, int64_t size);
void measure_triton(struct machine *m, enum measured_kernel kernel);

#endif
