/*
 * An operation of PyTorch makes a node if gradients are enabled and an input needs one. A function
 * with a backward pass of its own makes its node always, also if no input needs a gradient, and
 * runs its forward pass with gradients disabled: its node proves nothing, and what it makes cannot
 * be told from what a pass under torch.no_grad() makes, but by the call in which it runs.
 */
#include "hooks/grad_mode.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "record/event.h"
#include "record/state.h"
#include "symbols/resolve.h"

/* Large blocks in a row without a node, after which it is not known any more: most operations have
 * few results. */
#define QUIET 8
/* Large blocks after which the state is written again: older parts of a trace may be discarded. */
#define AGAIN 4096

typedef _Bool is_enabled(void);

static struct {
	_Atomic(is_enabled *) enabled;
	atomic_int is_missing; /* this version of PyTorch has no such function, or there are two */
} real;

/* What is recorded of the thread in the recording `generation`. */
static __thread struct {
	uint32_t generation;
	uint16_t since; /* large blocks since it was recorded */
	uint8_t made;   /* enum mt_grad_mode */
	uint8_t quiet;  /* large blocks in a row without a node, up to QUIET */
	/* The outermost function that made its node where gradients were enabled, and may run. */
	uint8_t in_function;
	struct pystack_place function;
} now __attribute__((tls_model("initial-exec")));

void grad_mode_forget(void)
{
	atomic_store(&real.enabled, NULL);
	atomic_store(&real.is_missing, 0);
}

void grad_mode_give_up(void)
{
	atomic_store(&real.is_missing, 1);
}

/* -1: not known. */
static int gradients_are_enabled(void)
{
	is_enabled *f = atomic_load_explicit(&real.enabled, memory_order_relaxed);

	if (atomic_load_explicit(&real.is_missing, memory_order_relaxed))
		return -1;
	if (__builtin_expect(!f, 0)) {
		f = (is_enabled *)resolve("_ZN3c108GradMode10is_enabledEv");
		if (!f) {
			atomic_store(&real.is_missing, 1);
			return -1;
		}
		atomic_store_explicit(&real.enabled, f, memory_order_relaxed);
	}
	return f();
}

/* Does the function still run? Without a Python frame, nothing tells when it ended. */
static int is_in_function(void)
{
	now.in_function =
		now.in_function && (!now.function.frame || pystack_is_within(&now.function));
	return now.in_function;
}

void grad_mode_function(void)
{
	if (!recording_already() || gradients_are_enabled() != 1 || is_in_function())
		return;
	now.in_function = 1;
	now.function = pystack_place();
}

/* What the thread's operations do now. Within an operation that has made its node and no block,
 * hooks of the job run with gradients disabled: what they make may be kept by the graph. */
static enum mt_grad_mode made_now(int enabled, enum node_of_block node,
				  const struct pystack_place *latest)
{
	if (node)
		return node == NODE ? MT_NODES_MADE : MT_NODES_NEEDLESS;
	if (!enabled && !is_in_function())
		return latest->frame && pystack_is_within(latest) ? MT_NODES_UNKNOWN
								  : MT_NODES_NONE;
	return (now.made == MT_NODES_MADE || now.made == MT_NODES_NEEDLESS) && now.quiet < QUIET
		       ? (enum mt_grad_mode)now.made
		       : MT_NODES_UNKNOWN;
}

void grad_mode_note(unsigned device, enum node_of_block node, const struct pystack_place *latest)
{
	int enabled = gradients_are_enabled();
	uint32_t generation = event_generation();
	enum mt_grad_mode made;

	if (enabled < 0)
		return;
	if (now.generation != generation)
		now.made = MT_NODES_UNKNOWN;
	now.quiet = node ? 0 : now.quiet + (now.quiet < QUIET);
	made = made_now(enabled, node, latest);
	if (now.generation == generation && made == (enum mt_grad_mode)now.made &&
	    ++now.since < AGAIN)
		return;
	if (event_write(MT_GRAD_MODE, device, 0, made, MT_NO_STACK) == MT_UNKNOWN)
		return;
	now.generation = generation;
	now.made = (uint8_t)made;
	now.since = 0;
}
