/*
 * Optimizer.add_param_group() of torch/optim/optimizer.py asks each parameter whether it is a leaf,
 * which calls at::TensorBase::grad_fn(). When an operation of PyTorch has made its node, it asks
 * each input for the node that it comes from, by the same function; an input without a node, for
 * the one that will add up its gradient, by torch::autograd::impl::grad_accumulator(). Both are
 * called through the PLT. These definitions come first and always forward.
 *
 * A node is needless if an input needs a gradient, and each that does is a torch.nn.Parameter that
 * no optimizer has, or comes from a needless node. What is not seen makes a node needed: inputs of
 * which a function asked before it made its node, and nodes that are not remembered any more. A
 * leaf of another type may be a step of a chain: the job, or a checkpoint, hands its gradient on.
 */
#define _GNU_SOURCE
#include "hooks/optimized.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "hooks/callers.h"
#include "hooks/node.h"
#include "hooks/tensor.h"
#include "memory/memory.h"
#include "python/pystack.h"
#include "record/event.h"
#include "record/state.h"

#define PARAMETERS (1u << 16) /* room; a power of 2 */
#define NEEDLESS (1u << 17)   /* needless nodes that are remembered; a power of 2 */
#define UNOWNED (1u << 14)    /* leaves that are remembered; a power of 2 */
#define PROBES 4              /* places of a leaf among these */
#define GROUPS 64             /* places that made an optimizer */
#define ASKERS 8              /* places that asked for nodes before the recording began */
#define MIX 0x9e3779b97f4a7c15u

#define GRAD_FN _ZNK2at10TensorBase7grad_fnEv
#define ACCUMULATOR _ZN5torch8autograd4impl16grad_accumulatorERKN2at6TensorE

/*
 * at::TensorBase holds one pointer, to a c10::TensorImpl. The first function returns a reference to
 * a pointer to a node; the second one fills `result`, a pointer to a node that counts its
 * references, and returns its address, as every function does whose result is a class with a
 * destructor. The name of a function does not tell what it returns: in a version of PyTorch where
 * that is otherwise, both pass everything on, and nothing is read.
 */
typedef const union node *const *grad_fn(void *const *tensor, void *more);
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
		_Atomic(uint8_t) used_in; /* low bits of generation + 1 of a recording */
		_Atomic(uint8_t) device;
		_Atomic(uint64_t) address;
	} list[PARAMETERS];
	struct {
		uint32_t stack;
		atomic_int is_replaced;
	} groups[GROUPS];
	unsigned group_count;
	atomic_uint count;
	atomic_int is_unknown;  /* an optimizer may have others */
	atomic_int is_changing; /* a thread changes the table */
	atomic_int is_needless_seen;
	atomic_uint changed_in;            /* generation + 1 of the recording that says so */
	_Atomic(uintptr_t) askers[ASKERS]; /* return addresses before the recording */
} known;

static _Atomic(uint64_t) needless[NEEDLESS]; /* keys */

/* Leaves that no optimizer has, and of which graphs need the gradients, each as it was when it was
 * seen first. */
static struct leaf {
	_Atomic(uintptr_t) key;
	_Atomic(uint64_t) identity; /* see identity_of() */
	_Atomic(uint32_t) version;
	_Atomic(uint8_t) is_parameter;
} unowned[UNOWNED];

/* The latest node of the thread, the latest parameter that a graph of it needs and no optimizer
 * has, and the latest of these of which note_change() has seen the version. */
static __thread struct {
	uint64_t number;
	uintptr_t leaf, checked;
	uint8_t is_needed, is_needless;
} latest __attribute__((tls_model("initial-exec")));

/* What optimizers have is not known any more. */
static void give_up(void)
{
	if (!atomic_exchange(&known.is_unknown, 1) && recording_already())
		event_write(MT_PARAMETER, 0, 0, MT_PARAMETER_UNKNOWN, MT_NO_STACK);
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

/* Does an optimizer have the parameter of the slot? */
static int has_parameter(size_t slot)
{
	return atomic_load_explicit(&known.list[slot].impl, memory_order_relaxed) &&
	       !atomic_load_explicit(&known.groups[known.list[slot].group].is_replaced,
				     memory_order_relaxed);
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

/* Records that no optimizer has the parameters of a group, or that it has them still. Of a
 * parameter that is gone, the address may be another one's. */
static void replace(unsigned group, int is_replaced)
{
	unsigned device;

	atomic_store(&known.groups[group].is_replaced, is_replaced);
	for (size_t i = 0; i < PARAMETERS; i++) {
		uintptr_t impl = atomic_load(&known.list[i].impl);

		if (impl && known.list[i].group == group && known.list[i].address &&
		    tensor_address((const void *)impl, &device) == known.list[i].address)
			event_write(MT_PARAMETER, known.list[i].device, known.list[i].address,
				    is_replaced ? MT_PARAMETER_REPLACED : MT_PARAMETER_GIVEN,
				    MT_NO_STACK);
	}
}

/* An optimizer gets the parameter. */
static void note_parameter(const void *impl)
{
	unsigned device = 0, group;
	uint64_t address = tensor_address(impl, &device);
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
		replace(known.list[i].group, 1);
	known.list[i].device = (uint8_t)device;
	known.list[i].address = address;
	atomic_store(&known.list[i].group, (uint8_t)group);
	atomic_store_explicit(&known.list[i].impl, (uintptr_t)impl, memory_order_release);
	atomic_fetch_add(&known.count, (unsigned)is_new);
	event_write(MT_PARAMETER, device, address, MT_PARAMETER_GIVEN, stack);
}

/* Adds the parameter, unless an optimizer may have asked from that place before the recording
 * began, or another thread changes the table right now, where Python has no lock. */
static void add_parameter(uintptr_t caller, const void *impl)
{
	int is_one = !atomic_exchange(&known.is_changing, 1);

	for (unsigned i = 0; i < ASKERS; i++)
		is_one &= atomic_load(&known.askers[i]) != caller;
	if (!is_one) {
		give_up();
		return;
	}
	note_parameter(impl);
	atomic_store(&known.is_changing, 0);
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
	else if (!atomic_load(&known.is_unknown) && pystack_runs("add_param_group"))
		add_parameter(caller, impl);
	errno = e;
}

/* ---- nodes ---- */

/* Are there parameters, and may no optimizer have others? */
static inline int is_followed(void)
{
	return atomic_load_explicit(&known.count, memory_order_relaxed) &&
	       !atomic_load_explicit(&known.is_unknown, memory_order_relaxed);
}

void optimized_node(uint64_t number, int is_torchs)
{
	latest.number = number;
	latest.is_needed = !is_torchs;
	latest.is_needless = 0;
}

static _Atomic(uint64_t) *needless_slot(uint64_t thread, uint64_t number)
{
	return &needless[node_slot(thread, number, NEEDLESS)];
}

/* The latest node has an input that needs a gradient. */
static void add_input(int is_needless)
{
	uint64_t thread;
	int e = errno;

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
	if (!atomic_load_explicit(&known.is_needless_seen, memory_order_relaxed))
		atomic_store(&known.is_needless_seen, 1);
	errno = e;
}

static int is_remembered(const struct numbers *n)
{
	return n->number != UINT64_MAX &&
	       atomic_load_explicit(needless_slot(n->thread, n->number), memory_order_relaxed) ==
		       node_key(n->thread, n->number);
}

/* A change of a part of a tensor: what the part is set to comes in by a node that is not asked for.
 */
static int is_copy_of_slices(const union node *n)
{
	const char *const *type = n->functions[-1];

	return type && type[1] && !strcmp(type[1], "N5torch8autograd10CopySlicesE");
}

/* Of the two layouts, the one that gives a needless node is right. */
static void add_node(const union node *n)
{
	add_input(atomic_load_explicit(&known.is_needless_seen, memory_order_relaxed) &&
		  (is_remembered(&n->counted_inside.of) || is_remembered(&n->counted_outside.of)) &&
		  !is_copy_of_slices(n));
}

static uintptr_t key_of(uintptr_t impl)
{
	return impl ^ (uintptr_t)event_generation() << 48;
}

/* What tells a tensor from another one at its address: the pointers to its storage and to what
 * autograd keeps of it, in either layout. */
static uint64_t identity_of(uintptr_t impl)
{
	const uint64_t *words = (const uint64_t *)impl;

	return words[2] ^ words[3] * MIX;
}

/* The row of a leaf; if it has none, the one that it takes, whose key is another one's. */
static struct leaf *find_leaf(uintptr_t impl)
{
	size_t first = (impl * MIX) >> 50;
	struct leaf *empty = &unowned[first % UNOWNED];

	for (size_t n = PROBES; n-- > 0;) {
		struct leaf *l = &unowned[(first + n) % UNOWNED];
		uintptr_t key = atomic_load_explicit(&l->key, memory_order_acquire);

		if (key == key_of(impl))
			return l;
		empty = key ? empty : l;
	}
	return empty;
}

static int is_same_leaf(const struct leaf *l, uintptr_t impl)
{
	return atomic_load_explicit(&l->key, memory_order_acquire) == key_of(impl) &&
	       atomic_load_explicit(&l->identity, memory_order_relaxed) == identity_of(impl);
}

/*
 * Something changes the leaf in place, from step to step as an optimizer does: it is of an
 * optimizer that is no torch.optim.Optimizer, or that was not replaced, or an average of weights.
 * In the last case, no optimizer has it in truth.
 */
static void note_change(uintptr_t impl)
{
	uint32_t generation = event_generation() + 1, version;
	struct leaf *l = find_leaf(impl);
	size_t i = find_parameter(impl);

	if (atomic_load(&l->key) != key_of(impl))
		return;
	version = tensor_version((const void *)impl);
	if (!version || version == atomic_load(&l->version))
		return;
	if (!atomic_load(&known.list[i].impl)) {
		if (atomic_exchange(&known.changed_in, generation) != generation)
			event_write(MT_PARAMETER, 0, 0, MT_PARAMETER_CHANGED, MT_NO_STACK);
	} else if (!atomic_exchange(&known.is_changing, 1)) {
		replace(known.list[i].group, 0);
		atomic_store(&known.is_changing, 0);
	}
}

int optimized_is_needless(void)
{
	int e = errno;

	if (!latest.is_needless || latest.is_needed || !is_followed())
		return 0;
	if (latest.leaf != latest.checked)
		note_change(latest.leaf);
	latest.checked = latest.leaf;
	errno = e;
	return !has_parameter(find_parameter(latest.leaf));
}

#if defined(__x86_64__)

/* A graph needs the gradient of a leaf that no optimizer has. Is it a parameter? Records that. */
static int note_unowned(uintptr_t impl)
{
	struct leaf *l = find_leaf(impl);
	unsigned device = 0;
	uint64_t address;
	int e = errno, is_parameter;

	if (is_same_leaf(l, impl))
		return atomic_load_explicit(&l->is_parameter, memory_order_relaxed);
	if (!recording_already())
		return 0;
	is_parameter = tensor_is_parameter((const void *)impl);
	atomic_store(&l->is_parameter, (uint8_t)is_parameter);
	atomic_store(&l->version, tensor_version((const void *)impl));
	atomic_store(&l->identity, identity_of(impl));
	atomic_store(&l->key, key_of(impl));
	address = is_parameter ? tensor_address((const void *)impl, &device) : 0;
	if (address)
		event_write(MT_PARAMETER, device, address, MT_PARAMETER_UNOWNED, MT_NO_STACK);
	errno = e;
	return is_parameter;
}

/* A graph needs the gradient of a parameter that an optimizer has, for the first time: where it is
 * now, since the job may have moved it. */
static void note_used(size_t slot, uintptr_t impl, uint8_t generation)
{
	unsigned device = 0;
	uint64_t address;
	int e = errno;

	if (!recording_already())
		return;
	atomic_store(&known.list[slot].used_in, generation);
	address = tensor_address((const void *)impl, &device);
	atomic_store(&known.list[slot].device, (uint8_t)device);
	atomic_store(&known.list[slot].address, address);
	event_write(MT_PARAMETER, device, address, MT_PARAMETER_USED, MT_NO_STACK);
	errno = e;
}

static inline void add_leaf(uintptr_t impl)
{
	size_t slot = find_parameter(impl);
	uint8_t generation = (uint8_t)(event_generation() + 1);
	int is_needless = 0;

	if (!has_parameter(slot))
		is_needless = note_unowned(impl);
	else if (atomic_load_explicit(&known.list[slot].used_in, memory_order_relaxed) !=
		 generation)
		note_used(slot, impl, generation);
	if (is_needless)
		latest.leaf = impl;
	add_input(is_needless);
}

/* The result of such a function comes by a hidden first argument on x86-64 alone. Elsewhere no leaf
 * is seen, and every node is needed. */
EXPORT accumulator ACCUMULATOR;

void *ACCUMULATOR(void *result, void *const *tensor)
{
	int is_beside;
	accumulator *forward = (accumulator *)callers_real(
		&real.accumulator, __builtin_return_address(0), TEXT(ACCUMULATOR), &is_beside);
	void *returned;

	if (!forward) {
		*(void **)result = NULL;
		return result;
	}
	returned = forward(result, tensor);
	if (is_followed() && returned == result && *(void *const *)result)
		add_leaf((uintptr_t)*tensor);
	return returned;
}

#endif

EXPORT grad_fn GRAD_FN;

const union node *const *GRAD_FN(void *const *tensor, void *more)
{
	static const union node *const none[2];
	const void *caller = __builtin_return_address(0);
	int is_beside = 0;
	grad_fn *forward =
		(grad_fn *)callers_real(&real.grad_fn, caller, TEXT(GRAD_FN), &is_beside);
	__typeof__(latest) outer = latest;
	const union node *const *node = forward ? forward(tensor, more) : none;

	/* Of a view that was changed in place, a node is made within that call. */
	latest = outer;
	if ((const void *)node == (const void *)tensor || !settings.NODES)
		return node;
	if (!is_beside)
		asked_from_outside((uintptr_t)caller, *tensor);
	else if (*node && is_followed())
		add_node(*node);
	return node;
}
