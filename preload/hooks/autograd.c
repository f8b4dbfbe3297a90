/*
 * PyTorch takes a number from at::sequence_number for each node, when the forward pass makes the
 * node and before the operation allocates its result; the engine runs a node by a function of its
 * own. Both functions are called through the PLT. These definitions come first and always forward.
 * A node is of the line whose large block is the next one, if the same instruction of the same
 * Python frame made it: when the node runs, its number leads to the stack of that block.
 */
#define _GNU_SOURCE
#include "hooks/autograd.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "memory/memory.h"
#include "python/pystack.h"
#include "record/event.h"
#include "record/state.h"
#include "record/tables.h"
#include "symbols/resolve.h"

#define EXPORT __attribute__((visibility("default")))
#define MADE (1u << 17) /* nodes that are remembered, of all threads; a power of 2 */
#define NEAR 1024       /* nodes behind a large block of which the place is looked at */
#define REACH 16        /* nodes before and behind one without a block that are looked at */

#define NUMBER _ZN2at15sequence_number17get_and_incrementEv
#define EVALUATE \
	_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* What torch::autograd::Node (torch/csrc/autograd/function.h) holds behind the count of its
 * references. That takes two words; one since nodes are counted by c10::intrusive_ptr. */
struct numbers {
	uint64_t number; /* UINT64_MAX: it has none */
	uint64_t depth, has_parent;
	uint64_t thread; /* PyTorch's number of the thread that made it */
};
union node {
	const void *const *functions; /* its virtual functions, with the type before them */
	struct {
		uint64_t head[2];
		struct numbers of;
	} counted_inside;
	struct {
		uint64_t head[3];
		struct numbers of;
	} counted_outside;
};

typedef uint64_t next_number(void);
typedef uint64_t thread_number(void);
typedef void evaluate(void *engine, void *const *task, const union node *node, void *inputs,
		      void *queue);

static struct {
	_Atomic(next_number *) number;
	_Atomic(thread_number *) thread;
	_Atomic(evaluate *) evaluate;
	atomic_int has_no_thread; /* this version of PyTorch has no such function */
} real;

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
	uint64_t until; /* the places of nodes before this one are looked at */
} making __attribute__((tls_model("initial-exec")));

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
} now __attribute__((tls_model("initial-exec")));

void autograd_forget(void)
{
	atomic_store(&real.number, NULL);
	atomic_store(&real.thread, NULL);
	atomic_store(&real.evaluate, NULL);
	atomic_store(&real.has_no_thread, 0);
}

/* ---- the forward pass ---- */

static uint64_t key_of(uint64_t thread, uint64_t number)
{
	return (thread << 48 ^ number) + 1;
}

/* The numbers of a thread follow one another, and those of two threads begin at other places. */
static size_t slot_of(uint64_t thread, uint64_t number)
{
	return (number + thread * (MADE / 8 + 1)) % MADE;
}

/* PyTorch's number of the calling thread; 0: not known. */
static uint64_t this_thread(void)
{
	thread_number *f = atomic_load_explicit(&real.thread, memory_order_relaxed);

	if (__builtin_expect(!f, 0)) {
		if (atomic_load_explicit(&real.has_no_thread, memory_order_relaxed))
			return 0;
		f = (thread_number *)resolve("_ZN2at14RecordFunction15currentThreadIdEv");
		if (!f) {
			atomic_store(&real.has_no_thread, 1);
			return 0;
		}
		atomic_store_explicit(&real.thread, f, memory_order_relaxed);
	}
	return f();
}

static void keep(uint64_t number, uint32_t stack)
{
	uint64_t thread = this_thread();
	size_t i = slot_of(thread, number);

	if (!thread)
		return;
	__atomic_store_n(&made[i].stack, stack, __ATOMIC_RELAXED);
	__atomic_store_n(&made[i].check, key_of(thread, number) ^ stack, __ATOMIC_RELAXED);
}

EXPORT next_number NUMBER;

uint64_t NUMBER(void)
{
	next_number *forward = atomic_load_explicit(&real.number, memory_order_relaxed);
	int e = errno;
	uint64_t number;

	if (__builtin_expect(!forward, 0)) {
		forward = (next_number *)resolve_beside(__builtin_return_address(0), TEXT(NUMBER));
		if (!forward)
			return ++making.number; /* nodes of a thread are in this order */
		atomic_store_explicit(&real.number, forward, memory_order_relaxed);
	}
	number = forward();
	making.number = number;
	making.place.frame = NULL;
	if (number < making.until && recording_already())
		making.place = pystack_place();
	errno = e;
	return number;
}

/* A large block of a Python stack: is it of the operation that made the latest node? */
static void match(uint32_t stack)
{
	struct pystack_place place;

	making.until = making.number + NEAR;
	if (!making.place.frame)
		return;
	place = pystack_place();
	if (place.frame == making.place.frame && place.instruction == making.place.instruction)
		keep(making.number, stack);
	making.place.frame = NULL;
}

/* ---- the backward pass ---- */

/* The stack of the block that came with a node; MT_NO_STACK: not known. */
static uint32_t stack_of(uint64_t thread, uint64_t number)
{
	size_t i = slot_of(thread, number);
	uint32_t stack = __atomic_load_n(&made[i].stack, __ATOMIC_RELAXED);
	uint64_t check = __atomic_load_n(&made[i].check, __ATOMIC_RELAXED);

	return thread && number != UINT64_MAX && (check ^ stack) == key_of(thread, number)
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
	evaluate *forward = atomic_load_explicit(&real.evaluate, memory_order_relaxed);
	const void *frame = __builtin_frame_address(0);
	__typeof__(now) outer = now;
	int e = errno;

	if (__builtin_expect(!forward, 0)) {
		forward = (evaluate *)resolve_beside(__builtin_return_address(0), TEXT(EVALUATE));
		atomic_store_explicit(&real.evaluate, forward, memory_order_relaxed);
	}
	if (recording_already() && node && settings.NODES) {
		begin(node, *task);
		now.frame = frame;
		now.run++;
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
	match(stack);
	if (!now.run || (now.recorded == now.run && now.device == device))
		return;
	if (now.type) {
		name = name_of(now.type);
		maker = stack_of_now(&after);
	}
	if (event_write(MT_NODE, device, name, maker ? after : 0, maker) == MT_UNKNOWN)
		return;
	now.recorded = now.run;
	now.device = device;
}
