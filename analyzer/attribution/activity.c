#include "attribution/activity.h"

#include "trace/tables.h"

/* The training loop's thread, or another one that runs Python. */
static enum activity of_python(uint32_t place)
{
	const uint32_t both = PLACE_MODULE | PLACE_LOSS;

	if (!(place & PLACE_FRAMES))
		return ACTIVITY_UNKNOWN;
	if (place & PLACE_SAVING)
		return ACTIVITY_SAVING;
	if (place & PLACE_LOADING)
		return ACTIVITY_LOADING;
	if (place & PLACE_RECOMPUTE)
		return ACTIVITY_RECOMPUTE;
	if (place & PLACE_BACKWARD)
		return ACTIVITY_BACKWARD;
	/* An optimizer's closure calls the model. */
	if (place & (PLACE_OPTIMIZER | PLACE_CLIPPING) && !(place & both))
		return ACTIVITY_OPTIMIZER;
	if (place & PLACE_ZERO_GRAD)
		return ACTIVITY_ZERO_GRAD;
	if (place & both && place & (PLACE_EVALUATION | PLACE_NO_GRAD))
		return ACTIVITY_EVALUATION;
	return place & both ? ACTIVITY_MODEL : ACTIVITY_MAIN;
}

enum activity activity_of(unsigned thread, uint32_t place)
{
	enum activity a;

	if (thread & THREAD_AUTOGRAD)
		return place & PLACE_RECOMPUTE ? ACTIVITY_RECOMPUTE : ACTIVITY_BACKWARD;
	a = of_python(place);
	/* Helpers (a data loader's, a checkpoint's) do not say what the loop does. */
	if (!(thread & THREAD_MAIN) && a == ACTIVITY_MAIN)
		return ACTIVITY_UNKNOWN;
	return a;
}
