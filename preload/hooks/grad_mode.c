/*
 * PyTorch's operations make a node if gradients are enabled and an input needs one, before they
 * allocate their result. A function of the job with a backward pass of its own makes its node
 * always, and runs its forward pass with gradients disabled: its blocks look like those under
 * torch.no_grad(), so a few of them change nothing, and of many it is not known.
 */
#include "hooks/grad_mode.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "record/event.h"
#include "symbols/resolve.h"

#define QUIET                                                                                 \
	8 /* large blocks in a row without a node, after which none is expected: an operation \
	     has few results */

typedef _Bool is_enabled(void);

static struct {
	_Atomic(is_enabled *) enabled;
	atomic_int is_missing; /* this version of PyTorch has no such function */
} real;

/* What operations do with nodes, as `bytes` of the event says it. */
enum made { MAKE_NONE = 0, MAKE_NODES = 1, NOT_KNOWN = 2 };

/* What is recorded of the thread in the recording `generation`, and what it did since the last call
 * of grad_mode_note(). */
static __thread struct {
	uint32_t generation;
	uint8_t made; /* enum made */
	uint8_t is_enabled;
	uint8_t quiet;    /* large blocks in a row without a node, up to QUIET */
	uint8_t has_node; /* a node was made while gradients were enabled */
	uint8_t is_own;   /* the latest one of them is of a function, which may still run */
} now __attribute__((tls_model("initial-exec")));

void grad_mode_forget(void)
{
	atomic_store(&real.enabled, NULL);
	atomic_store(&real.is_missing, 0);
}

/* -1: not known. */
static int gradients_are_enabled(void)
{
	is_enabled *f = atomic_load_explicit(&real.enabled, memory_order_relaxed);

	if (__builtin_expect(!f, 0)) {
		if (atomic_load_explicit(&real.is_missing, memory_order_relaxed))
			return -1;
		f = (is_enabled *)resolve("_ZN3c108GradMode10is_enabledEv");
		if (!f) {
			atomic_store(&real.is_missing, 1);
			return -1;
		}
		atomic_store_explicit(&real.enabled, f, memory_order_relaxed);
	}
	return f();
}

void grad_mode_node(int is_own)
{
	int enabled = !is_own || gradients_are_enabled() > 0;

	now.has_node |= (uint8_t)enabled;
	now.is_own = is_own && enabled;
}

/* What the thread's operations do now; they did `before` until the last large block. */
static enum made made_now(int enabled, enum made before)
{
	if (!enabled && !now.is_own)
		return MAKE_NONE;
	if (now.has_node || (before == MAKE_NODES && now.quiet < QUIET))
		return MAKE_NODES;
	return enabled ? MAKE_NONE : NOT_KNOWN;
}

void grad_mode_note(unsigned device)
{
	int enabled = gradients_are_enabled();
	uint32_t generation = event_generation();
	int is_first = now.generation != generation;
	enum made made;

	if (enabled < 0)
		return;
	now.quiet = now.has_node ? 0 : now.quiet + (now.quiet < QUIET);
	made = made_now(enabled, is_first ? MAKE_NONE : (enum made)now.made);
	now.has_node = 0;
	now.is_own &= !enabled;
	if (!is_first && made == (enum made)now.made &&
	    (made != MAKE_NONE || enabled == now.is_enabled))
		return;
	now.generation = generation;
	now.made = (uint8_t)made;
	now.is_enabled = (uint8_t)enabled;
	event_write(MT_GRAD_MODE, device, (uint64_t)enabled, made, MT_NO_STACK);
}
