#include "attribution/activity.h"

#include "attribution/frames.h"

/* For the thread of the training loop, and for others that run Python. */
static enum activity of_python(uint32_t flags)
{
	const uint32_t model = STACK_MODULE | STACK_LOSS;

	if (!(flags & STACK_FRAMES))
		return ACTIVITY_UNKNOWN;
	if (flags & STACK_SAVING)
		return ACTIVITY_SAVING;
	if (flags & STACK_LOADING)
		return ACTIVITY_LOADING;
	if (flags & STACK_RECOMPUTE)
		return ACTIVITY_RECOMPUTE;
	if (flags & STACK_BACKWARD)
		return ACTIVITY_BACKWARD;
	if (flags & STACK_ZERO_GRAD && !(flags & model))
		return ACTIVITY_ZERO_GRAD;
	/* An optimizer's closure calls the model. */
	if (flags & (STACK_OPTIMIZER | STACK_CLIPPING) && !(flags & model))
		return ACTIVITY_OPTIMIZER;
	/* The code around such a closure switches the gradients off (LBFGS), and on again. */
	if (flags & model && !(flags & STACK_OPTIMIZER) &&
	    flags & (STACK_EVALUATION | STACK_NO_GRAD))
		return ACTIVITY_EVALUATION;
	return flags & model ? ACTIVITY_MODEL : ACTIVITY_MAIN;
}

enum activity activity_of(unsigned thread, uint32_t flags)
{
	enum activity a;

	if (thread & THREAD_AUTOGRAD)
		return flags & STACK_RECOMPUTE ? ACTIVITY_RECOMPUTE : ACTIVITY_BACKWARD;
	a = of_python(flags);
	/* A helper thread (of a data loader, of a checkpoint writer) shows nothing of the loop. */
	if (!(thread & THREAD_MAIN) && a == ACTIVITY_MAIN)
		return ACTIVITY_UNKNOWN;
	return a;
}
