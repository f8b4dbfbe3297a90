#include "attribution/activity.h"

#include "trace/tables.h"

/* The training loop's thread, or another one that runs Python. */
static enum activity of_python(uint32_t stack)
{
	const uint32_t both = STACK_MODULE | STACK_LOSS;

	if (!(stack & STACK_FRAMES))
		return ACTIVITY_UNKNOWN;
	if (stack & STACK_SAVING)
		return ACTIVITY_SAVING;
	if (stack & STACK_LOADING)
		return ACTIVITY_LOADING;
	if (stack & STACK_RECOMPUTE)
		return ACTIVITY_RECOMPUTE;
	if (stack & STACK_BACKWARD)
		return ACTIVITY_BACKWARD;
	/* An optimizer's closure calls the model. */
	if (stack & (STACK_OPTIMIZER | STACK_CLIPPING) && !(stack & both))
		return ACTIVITY_OPTIMIZER;
	if (stack & STACK_ZERO_GRAD)
		return ACTIVITY_ZERO_GRAD;
	if (stack & both && stack & (STACK_EVALUATION | STACK_NO_GRAD))
		return ACTIVITY_EVALUATION;
	return stack & both ? ACTIVITY_MODEL : ACTIVITY_MAIN;
}

enum activity activity_of(unsigned thread, uint32_t stack)
{
	enum activity a;

	if (thread & THREAD_AUTOGRAD)
		return stack & STACK_RECOMPUTE ? ACTIVITY_RECOMPUTE : ACTIVITY_BACKWARD;
	a = of_python(stack);
	/* Helpers (a data loader's, a checkpoint's) do not say what the loop does. */
	if (!(thread & THREAD_MAIN) && a == ACTIVITY_MAIN)
		return ACTIVITY_UNKNOWN;
	return a;
}
