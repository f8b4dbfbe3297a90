/*
 * PyTorch takes a number from at::sequence_number for each node, when the forward pass makes the
 * node and before the operation allocates its result; the engine runs a node by a function of its
 * own. Both functions are called through the PLT. These definitions come first and always forward.
 * A node is of the line whose large block is the next one, if the same instruction of the same
 * Python frame made it: when the node runs, its number leads to the stack of that block. So are the
 * nodes that follow it, if that instruction made them too: the loss of cross_entropy(), whose large
 * block log_softmax() makes.
 */
#define _GNU_SOURCE
#include "hooks/autograd.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "hooks/callers.h"
#include "hooks/grad_mode.h"
#include "hooks/node.h"
#include "hooks/optimized.h"
#include "memory/memory.h"
#include "python/pystack.h"
#include "record/event.h"
#include "record/state.h"
#include "record/tables.h"

#define MADE (1u << 17) /* nodes that are remembered, of all threads; a power of 2 */
#define NEAR 1024       /* nodes behind a large block of which the place is looked at */
#define REACH 16        /* nodes before and behind one without a block that are looked at */

#define NUMBER _ZN2at15sequence_number17get_and_incrementEv
#define EVALUATE \
	_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE
typedef uint64_t next_number(void);
typedef void evaluate(void *engine, void *const *task, const union node *node, void *inputs,
		      void *queue);

static struct {
	struct callers number, evaluate;
	atomic_uint unloaded; /* libraries were, so many times */
} real = { .number.differ = grad_mode_give_up };

/* The stack of the block that came with a node; `check` is the node's key ^ stack. */
static struct {
	uint64_t check;
	uint32_t stack;
} made[MADE];

/* The node that the thread made last, while none of its blocks is known. Threads that make small
 * blocks only have no large ones in the backward pass either. */
static __thread struct {
	struct pystack_place place;
	uint64_t number;
	uint64_t until;    /* the places of nodes before this one are looked at */
	uint8_t is_torchs; /* it is of an operation of PyTorch's own */
} making __attribute__((tls_model("initial-exec")));

/* The node whose stack the thread kept last. */
static __thread struct {
	struct pystack_place place;
	uint64_t number;
	uint32_t stack;
} kept_last __attribute__((tls_model("initial-exec")));

/* What is kept of a node that runs. Nothing is read from the node itself later: an error of the job
 * may have ended it. */
struct kept {
	uint64_t number[2], thread[2]; /* as the two layouts have them */
};

/* The node that the thread runs, and what is recorded of it. */
static __thread struct {
	const char *type; /* its mangled name; NULL: no node runs */
	struct kept of;   /* for an accumulation, the node before it */
	const void *graph;
	const void *frame; /* of the call that runs it */
	uint64_t run;      /* the number of nodes that the thread has run, with this one */
	uint64_t recorded;
	unsigned device;
	unsigned unloaded; /* libraries, when it began */
	int is_recorded;   /* the latest record of the thread is of a node */
} now __attribute__((tls_model("initial-exec")));

void autograd_forget(void)
{
	callers_forget(&real.number);
	callers_forget(&real.evaluate);
	node_forget();
	atomic_fetch_add(&real.unloaded, 1);
}

/* ---- the forward pass ---- */

static void keep(uint64_t number, uint32_t stack)
{
	uint64_t thread = node_thread();
	size_t i = node_slot(thread, number, MADE);

	if (!thread)
		return;
	__atomic_store_n(&made[i].stack, stack, __ATOMIC_RELAXED);
	__atomic_store_n(&made[i].check, node_key(thread, number) ^ stack, __ATOMIC_RELAXED);
}

static int is_place(const struct pystack_place *a, const struct pystack_place *b)
{
	return a->frame == b->frame && a->instructions == b->instructions;
}

static void keep_made(uint32_t stack)
{
	keep(making.number, stack);
	kept_last.place = making.place;
	kept_last.number = making.number;
	kept_last.stack = stack;
}

EXPORT next_number NUMBER;

uint64_t NUMBER(void)
{
	int e = errno, is_torchs = 0;
	next_number *forward = (next_number *)callers_real(
		&real.number, __builtin_return_address(0), TEXT(NUMBER), &is_torchs);

	/* Without the real function, nodes of a thread are numbered in their order, too. */
	making.number = forward ? forward() : making.number + 1;
	if (!is_torchs && settings.NODES)
		grad_mode_function();
	making.is_torchs = (uint8_t)is_torchs;
	making.place.frame = NULL;
	optimized_node(making.number, is_torchs);
	if (making.number < making.until && recording_already())
		making.place = pystack_place();
	if (making.place.frame && making.number == kept_last.number + 1 &&
	    is_place(&making.place, &kept_last.place))
		keep_made(kept_last.stack);
	errno = e;
	return making.number;
}

/* Is what allocates now the operation that made the latest node? */
static int is_of_latest(void)
{
	struct pystack_place place;

	making.until = making.number + NEAR;
	if (!making.place.frame)
		return 0;
	place = pystack_place();
	return is_place(&place, &making.place);
}

static void note_grad_mode(unsigned device, int is_of_node)
{
	static const struct pystack_place none;

	grad_mode_note(device,
		       !is_of_node || !making.is_torchs ? NO_NODE
		       : optimized_is_needless()        ? NEEDLESS_NODE
							: NODE,
		       making.is_torchs ? &making.place : &none);
}

/* A large block of a Python stack. Hooks of an operation that has made its node come before its own
 * block. */
static void note_block(unsigned device, uint32_t stack)
{
	int is_of_node = is_of_latest();

	note_grad_mode(device, is_of_node);
	if (is_of_node)
		keep_made(stack);
	if (making.place.frame && (is_of_node || !pystack_is_within(&making.place)))
		making.place.frame = NULL;
}

void autograd_failed(unsigned device)
{
	if (settings.NODES)
		note_grad_mode(device, is_of_latest());
}

/* ---- the backward pass ---- */

/* The stack of the block that came with a node; MT_NO_STACK: not known. */
static uint32_t stack_of(uint64_t thread, uint64_t number)
{
	size_t i = node_slot(thread, number, MADE);
	uint32_t stack = __atomic_load_n(&made[i].stack, __ATOMIC_RELAXED);
	uint64_t check = __atomic_load_n(&made[i].check, __ATOMIC_RELAXED);

	return thread && number != UINT64_MAX && (check ^ stack) == node_key(thread, number)
		       ? stack
		       : MT_NO_STACK;
}

/* The nearest node with a stack, of those made earlier (`step` -1) or later (1). */
static uint32_t stack_beside(uint64_t thread, uint64_t number, int step)
{
	uint32_t stack = MT_NO_STACK;

	for (unsigned i = 0; i < REACH && !stack; i++) {
		number += (uint64_t)step;
		stack = stack_of(thread, number);
	}
	return stack;
}

/* Of the node that runs; without one, of the nodes that were made before and after it: `after` is
 * MT_NO_STACK otherwise. Of the two layouts, the one that gives any is right. */
static uint32_t stack_of_now(uint32_t *after)
{
	uint32_t stack = MT_NO_STACK;

	*after = MT_NO_STACK;
	for (int i = 0; i < 2 && !stack; i++)
		stack = stack_of(now.of.thread[i], now.of.number[i]);
	for (int i = 0; i < 2 && !stack; i++) {
		*after = stack_beside(now.of.thread[i], now.of.number[i], 1);
		stack = *after ? stack_beside(now.of.thread[i], now.of.number[i], -1) : MT_NO_STACK;
	}
	return stack;
}

/*
 * A node that adds a gradient to a parameter has no number. It runs before all nodes with a number,
 * as soon as its gradient is there: after the node that made it.
 */
static int is_accumulation(const char *type)
{
	return type && !strcmp(type, "N5torch8autograd14AccumulateGradE");
}

static void begin(const union node *n, const void *graph)
{
	const char *const *type = n->functions[-1];
	const struct numbers *inside = &n->counted_inside.of, *outside = &n->counted_outside.of;

	now.type = type ? type[1] : NULL;
	if (graph != now.graph)
		now.of = (struct kept){ 0 };
	now.graph = graph;
	if (!is_accumulation(now.type))
		now.of = (struct kept){ { inside->number, outside->number },
					{ inside->thread, outside->thread } };
}

EXPORT evaluate EVALUATE;

/* The engine runs a node, and hands on the gradients that it made. A node may run others. */
void EVALUATE(void *engine, void *const *task, const union node *node, void *inputs, void *queue)
{
	const void *frame = __builtin_frame_address(0);
	__typeof__(now) outer = now;
	int e = errno, is_beside;
	evaluate *forward = (evaluate *)callers_real(&real.evaluate, __builtin_return_address(0),
						     TEXT(EVALUATE), &is_beside);

	if (recording_already() && node && settings.NODES) {
		begin(node, *task);
		now.frame = frame;
		now.run++;
		now.unloaded = atomic_load_explicit(&real.unloaded, memory_order_relaxed);
	}
	errno = e;
	forward(engine, task, node, inputs, queue);
	/* Without a call around this one, or if an exception has left that call. */
	if (!outer.type || (uintptr_t)outer.frame <= (uintptr_t)frame) {
		outer = now;
		outer.type = NULL;
	}
	now.type = outer.type;
	now.of = outer.of;
	now.graph = outer.graph;
	now.frame = outer.frame;
	now.run++;
}

/* The name of a class without its namespaces, as an id of the tables, from the mangled name:
 * "N5torch8autograd9generated14AddmmBackward0E". */
static uint32_t name_of(const char *text)
{
	const char *name = NULL;
	size_t length = 0;

	text += *text == '*';
	text += *text == 'N';
	while (*text >= '1' && *text <= '9') {
		for (length = 0; *text >= '0' && *text <= '9' && length < 1000; text++)
			length = length * 10 + (size_t)(*text - '0');
		if (strnlen(text, length) < length)
			return 0;
		name = text;
		text += length;
	}
	return name ? tables_string(name, length) : 0;
}

void autograd_note(unsigned device, uint32_t stack)
{
	uint32_t maker = MT_NO_STACK, after = MT_NO_STACK, name = 0;

	if (!settings.NODES)
		return;
	note_block(device, stack);
	/* An error has ended the call of the engine, or a library, maybe the node's, is gone. */
	if (now.type &&
	    ((uintptr_t)__builtin_frame_address(0) > (uintptr_t)now.frame ||
	     now.unloaded != atomic_load_explicit(&real.unloaded, memory_order_relaxed)))
		now.type = NULL;
	if (!now.run || (!now.type && !now.is_recorded) ||
	    (now.recorded == now.run && now.device == device))
		return;
	now.recorded = now.run;
	now.device = device;
	now.is_recorded = now.type != NULL;
	if (now.type) {
		name = name_of(now.type);
		maker = stack_of_now(&after);
	}
	event_write(MT_NODE, device, name, maker ? after : 0, maker);
}
