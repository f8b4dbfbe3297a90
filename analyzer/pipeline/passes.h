/* The forward and the backward pass of a micro-batch through a model chunk
 * (pipeline_parallel/schedules.py: forward_step(), backward_step()). */
#ifndef MEMTRACE_PIPELINE_PASSES_H
#define MEMTRACE_PIPELINE_PASSES_H

#include "megatron/model.h"

/* The variables of the schedule: they keep the last tensors until the next assignment. */
struct variables {
	tensor output, output_gradient, input_gradient;
	struct input_ref graph; /* the graph of the last output; its leaf is the stage's input */
	struct input_ref input; /* input_tensor */
};

/* Allocates what is received from the previous stage. */
void pass_receive(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* Allocates what is received from the next stage. */
void receive_gradient(struct machine *m, struct microbatch *b);
void forward_step(struct machine *m, struct model_chunk *c, struct microbatch *b);
void backward_step(struct machine *m, struct model_chunk *c, struct microbatch *b,
		   struct variables *v);
void release_variables(struct machine *m, struct variables *v);
/* A variable of Python that keeps `input`. */
void pass_keep(struct machine *m, struct input_ref *k, tensor input);

/* The parts of both passes before and after the layers run. */
void begin_forward(struct machine *m, struct model_chunk *c, struct microbatch *b);
void end_forward(struct machine *m, struct model_chunk *c, struct microbatch *b);
void end_backward(struct machine *m, struct model_chunk *c, struct microbatch *b,
		  struct variables *v);

#endif
