/*
 * Optimizer.add_param_group() of torch/optim/optimizer.py asks each parameter whether it is a leaf,
 * which calls at::TensorBase::grad_fn(). When an operation of PyTorch has made its node, it asks
 * each input for the node that it comes from, by the same function; an input without a node, for
 * the one that will add up its gradient, by torch::autograd::impl::grad_accumulator(). Both are
 * called through the PLT. These definitions come first and always forward.
 *
 * A node is needless if an input needs a gradient, and each that does is a tensor that no optimizer
 * has, or comes from a needless node. What is not seen makes a node needed: inputs of which the
 * operation asked before it made the node, and nodes that are not remembered any more.
 */
#define _GNU_SOURCE
#include "hooks/optimized.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/peek.h"
#include "hooks/callers.h"
#include "hooks/node.h"
#include "memory/memory.h"
#include "python/pystack.h"
#include "record/event.h"
#include "record/state.h"

#define PARAMETERS (1u << 16) /* room; a power of 2 */
#define NEEDLESS (1u << 17)   /* needless nodes that are remembered; a power of 2 */
#define UNOWNED (1u << 12)    /* tensors that are remembered; a power of 2 */
#define GROUPS 64             /* places that made an optimizer */
#define ASKERS 8              /* places that asked for nodes before the recording began */
#define MIX 0x9e3779b97f4a7c15u
#define DEVICE_TYPE_CUDA 1 /* c10::DeviceType */

#define GRAD_FN _ZNK2at10TensorBase7grad_fnEv
#define ACCUMULATOR _ZN5torch8autograd4impl16grad_accumulatorERKN2at6TensorE

/* at::TensorBase holds one pointer, to a c10::TensorImpl. */
typedef const union node *const *grad_fn(void *const *tensor);
/* `result`: room for a pointer to a node that counts its references. */
typedef void *accumulator(void *result, void *const *tensor);

static void give_up(void);

static struct {
	struct callers grad_fn, accumulator;
} real = { .grad_fn.differ = give_up, .accumulator.differ = give_up };

/*
 * The parameters of optimizers, each by its TensorImpl: a hash table from which nothing is removed.
 * Another tensor at that address counts as one, too. A group is what one place of the job gave to
 * an optimizer. If another place gives one of them to another optimizer, that one is taken to
 * replace the first, whose other parameters no optimizer has any more.
 */
static struct {
	struct {
		_Atomic(uintptr_t) impl;
		_Atomic(uint8_t) group;
		uint8_t device;
		uint64_t address;
	} list[PARAMETERS];
	struct {
		uint32_t stack;
		atomic_int is_replaced;
	} groups[GROUPS];
	unsigned group_count;
	atomic_uint count;
	atomic_int is_followed; /* there are parameters, and no optimizer may have others */
	atomic_int is_unknown;  /* an optimizer may have others */
	atomic_int is_used;     /* a graph needs the gradient of one */
	atomic_int is_adding;   /* a thread, where Python has no lock */
	atomic_int is_needless_seen;
	atomic_uint used_in;               /* generation + 1 of the recording that has it */
	_Atomic(uintptr_t) askers[ASKERS]; /* return addresses before the recording */
} known;

static _Atomic(uint64_t) needless[NEEDLESS]; /* keys */

/* Tensors that no optimizer has, and of which it is recorded that a graph needs their gradients. */
static _Atomic(uintptr_t) unowned[UNOWNED];

/* The latest node of the thread. */
static __thread struct {
	uint64_t number;
	uint8_t is_needed, is_needless;
} latest __attribute__((tls_model("initial-exec")));

static void give_up(void)
{
	atomic_store(&known.is_unknown, 1);
	atomic_store(&known.is_followed, 0);
}

void optimized_forget(void)
{
	callers_forget(&real.grad_fn);
	callers_forget(&real.accumulator);
}

/* ---- parameters ---- */

static size_t parameter_slot(uintptr_t impl)
{
	return (impl * MIX) >> 48 & (PARAMETERS - 1);
}

/* The slot of a parameter, or the empty one where it belongs. */
static size_t find_parameter(uintptr_t impl)
{
	size_t i = parameter_slot(impl);
	uintptr_t at;

	while ((at = atomic_load_explicit(&known.list[i].impl, memory_order_acquire)) && at != impl)
		i = (i + 1) & (PARAMETERS - 1);
	return i;
}

static int has_parameter(uintptr_t impl)
{
	size_t i = find_parameter(impl);

	return atomic_load_explicit(&known.list[i].impl, memory_order_relaxed) &&
	       !atomic_load_explicit(&known.groups[known.list[i].group].is_replaced,
				     memory_order_relaxed);
}

/* What follows the count of references in an object that counts them: two words in PyTorch up to
 * 2.2, one of two halves since. Returns its offset; 0 if it cannot be read. */
static int behind_count(const void *object)
{
	uint64_t counts;

	if (peek(object, 8, &counts, sizeof(counts)))
		return 0;
	return counts >> 32 ? 16 : 24;
}

/*
 * Where the tensor's bytes are: c10::TensorImpl begins with its storage, and c10::StorageImpl with
 * a c10::DataPtr, which is the address, a context with its deleter, and the device.
 */
static uint64_t address_of(const void *impl, unsigned *device)
{
	const void *storage = NULL;
	uint64_t address = 0;
	int8_t of[2] = { 0, 0 };
	int at = behind_count(impl);

	if (!at || peek(impl, at, &storage, sizeof(storage)) || !storage)
		return 0;
	at = behind_count(storage);
	if (!at || peek(storage, at, &address, sizeof(address)) ||
	    peek(storage, at + 24, of, sizeof(of)) || of[0] != DEVICE_TYPE_CUDA || of[1] < 0 ||
	    of[1] >= MT_MAX_DEVICES)
		return 0;
	*device = (unsigned)of[1];
	return address;
}

/* The group of a place; GROUPS: there is no room. */
static unsigned group_of(uint32_t stack)
{
	unsigned i = 0;

	while (i < known.group_count &&
	       (known.groups[i].stack != stack || atomic_load(&known.groups[i].is_replaced)))
		i++;
	if (i == known.group_count && i < GROUPS) {
		known.groups[i].stack = stack;
		known.group_count++;
	}
	return i;
}

/* Records that no optimizer has the parameters of a group. */
static void replace(unsigned group)
{
	atomic_store(&known.groups[group].is_replaced, 1);
	for (size_t i = 0; i < PARAMETERS; i++)
		if (atomic_load(&known.list[i].impl) && known.list[i].group == group)
			event_write(MT_PARAMETER, known.list[i].device, known.list[i].address, 2,
				    MT_NO_STACK);
}

/* An optimizer gets the parameter. */
static void note_parameter(const void *impl)
{
	unsigned device = 0, group;
	uint64_t address = address_of(impl, &device);
	uint32_t stack = pystack_current(0);
	size_t i = find_parameter((uintptr_t)impl);
	int is_new = !atomic_load(&known.list[i].impl);

	group = group_of(stack);
	if (group == GROUPS || (is_new && atomic_load(&known.count) >= PARAMETERS / 4 * 3)) {
		give_up();
		return;
	}
	if (!is_new && known.list[i].group != group &&
	    !atomic_load(&known.groups[known.list[i].group].is_replaced))
		replace(known.list[i].group);
	known.list[i].device = (uint8_t)device;
	known.list[i].address = address;
	atomic_store(&known.list[i].group, (uint8_t)group);
	atomic_store_explicit(&known.list[i].impl, (uintptr_t)impl, memory_order_release);
	atomic_fetch_add(&known.count, (unsigned)is_new);
	atomic_store(&known.is_followed, !atomic_load(&known.is_unknown));
	event_write(MT_PARAMETER, device, address, 0, stack);
}

/* Adds it, unless an optimizer may have asked from that place before the recording began, or
 * another thread adds one right now, where Python has no lock. */
static void add_parameter(uintptr_t caller, const void *impl)
{
	int is_one = !atomic_exchange(&known.is_adding, 1);

	for (unsigned i = 0; i < ASKERS; i++)
		is_one &= atomic_load(&known.askers[i]) != caller;
	if (!is_one) {
		give_up();
		return;
	}
	note_parameter(impl);
	atomic_store(&known.is_adding, 0);
}

/* Keeps the place from which a node was asked for, before the recording began. */
static void keep_asker(uintptr_t caller)
{
	for (unsigned i = 0; i < ASKERS; i++) {
		uintptr_t none = 0;

		if (atomic_load(&known.askers[i]) == caller ||
		    atomic_compare_exchange_strong(&known.askers[i], &none, caller) ||
		    none == caller)
			return;
	}
	give_up();
}

/* Python, or another library, asks for the node of a tensor. Before the recording nothing tells
 * whether an optimizer did: if it asks from a place that asked then, it may have. */
static void asked_from_outside(uintptr_t caller, const void *impl)
{
	int e = errno;

	if (!recording_already())
		keep_asker(caller);
	else if (pystack_runs("add_param_group") && !atomic_load(&known.is_unknown))
		add_parameter(caller, impl);
	errno = e;
}

/* ---- nodes ---- */

static inline int is_followed(void)
{
	return atomic_load_explicit(&known.is_followed, memory_order_relaxed);
}

void optimized_node(uint64_t number)
{
	latest.number = number;
	latest.is_needed = latest.is_needless = 0;
}

int optimized_is_needless(void)
{
	return latest.is_needless && !latest.is_needed && is_followed();
}

static _Atomic(uint64_t) *needless_slot(uint64_t thread, uint64_t number)
{
	return &needless[(number + thread * (NEEDLESS / 8 + 1)) % NEEDLESS];
}

/* The latest node has an input that needs a gradient. */
static void add_input(int is_needless)
{
	uint64_t thread;

	if (!is_needless && !latest.is_needless) {
		latest.is_needed = 1;
		return;
	}
	if (latest.is_needed || (is_needless && latest.is_needless))
		return;
	thread = node_thread();
	latest.is_needed |= !is_needless || !thread;
	latest.is_needless |= is_needless;
	atomic_store_explicit(needless_slot(thread, latest.number),
			      latest.is_needed ? 0 : node_key(thread, latest.number),
			      memory_order_relaxed);
	atomic_store_explicit(&known.is_needless_seen, 1, memory_order_relaxed);
}

static int is_remembered(const struct numbers *n)
{
	return n->number != UINT64_MAX &&
	       atomic_load_explicit(needless_slot(n->thread, n->number), memory_order_relaxed) ==
		       node_key(n->thread, n->number);
}

/* Of the two layouts, the one that gives a needless node is right. */
static void add_node(const union node *n)
{
	add_input(atomic_load_explicit(&known.is_needless_seen, memory_order_relaxed) &&
		  (is_remembered(&n->counted_inside.of) || is_remembered(&n->counted_outside.of)));
}

/* A graph needs the gradient of a tensor that no optimizer has. */
static void note_unowned(uintptr_t impl)
{
	uintptr_t key = impl ^ (uintptr_t)event_generation() << 48;
	_Atomic(uintptr_t) *slot = &unowned[(impl * MIX) >> 52 & (UNOWNED - 1)];
	unsigned device = 0;
	uint64_t address;
	int e = errno;

	if (atomic_load_explicit(slot, memory_order_relaxed) == key || !recording_already())
		return;
	atomic_store_explicit(slot, key, memory_order_relaxed);
	address = address_of((const void *)impl, &device);
	if (address)
		event_write(MT_PARAMETER, device, address, 3, MT_NO_STACK);
	errno = e;
}

static inline void add_leaf(uintptr_t impl)
{
	int is_optimized = has_parameter(impl);

	if (is_optimized && !atomic_load_explicit(&known.is_used, memory_order_relaxed))
		atomic_store(&known.is_used, 1);
	if (!is_optimized)
		note_unowned(impl);
	add_input(!is_optimized);
}

void optimized_note(unsigned device)
{
	uint32_t generation = event_generation() + 1;

	if (!is_followed() || !atomic_load_explicit(&known.is_used, memory_order_relaxed) ||
	    atomic_load_explicit(&known.used_in, memory_order_relaxed) == generation)
		return;
	atomic_store(&known.used_in, generation);
	event_write(MT_PARAMETER, device, 0, 1, MT_NO_STACK);
}

EXPORT grad_fn GRAD_FN;

const union node *const *GRAD_FN(void *const *tensor)
{
	static const union node *const none[2];
	const void *caller = __builtin_return_address(0);
	int is_beside = 0;
	grad_fn *forward =
		(grad_fn *)callers_real(&real.grad_fn, caller, TEXT(GRAD_FN), &is_beside);
	const union node *const *node;

	if (!is_beside && settings.NODES && tensor && *tensor)
		asked_from_outside((uintptr_t)caller, *tensor);
	node = forward ? forward(tensor) : none;
	if (is_beside && *node && is_followed())
		add_node(*node);
	return node;
}

EXPORT accumulator ACCUMULATOR;

void *ACCUMULATOR(void *result, void *const *tensor)
{
	int is_beside;
	accumulator *forward = (accumulator *)callers_real(
		&real.accumulator, __builtin_return_address(0), TEXT(ACCUMULATOR), &is_beside);

	if (!forward) {
		*(void **)result = NULL;
		return result;
	}
	forward(result, tensor);
	if (*(void *const *)result && is_followed())
		add_leaf((uintptr_t)*tensor);
	return result;
}
