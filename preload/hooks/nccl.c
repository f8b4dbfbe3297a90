/*
 * NCCL: the creation and end of communicators, and the memory that each took. The memory itself
 * is recorded when NCCL asks the driver for it, with NCCL as its owner: a call inside one of
 * these wrappers does not count as nested.
 */
#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/nccl.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "memory/counters.h"
#include "base/lock.h"
#include "memory/memory.h"
#include "record/losses.h"
#include "record/state.h"
#include "symbols/resolve.h"
#include "record/tables.h"
#include "base/text.h"

#define COMMS 256
#define STAT_TOTAL 3 /* ncclStatGpuMemTotal: a communicator's memory on the device */

/* The known communicators: a COMM_INIT of each. A communicator beyond the limit is counted as
 * lost: its end, and the parent of its children, are not known. */
struct communicator {
	void *comm; /* NULL: a free slot */
	uint64_t sequence, bytes;
	int64_t used;
	unsigned device;
	const void *maker;  /* the function that made it: others come from the same copy of NCCL */
	uint64_t parent;    /* of a communicator to be described: its parent's record */
	const void *thread; /* the thread that describes it after its group; NULL: described */
};

static struct {
	struct lock lock;
	struct communicator comm[COMMS];
	atomic_uint undescribed;
} nccl;

/* ncclGroupStart() less ncclGroupEnd(): a communicator created inside a group exists only after
 * it. */
static __thread unsigned groups __attribute__((tls_model("initial-exec")));

void nccl_forget(void)
{
	memset(&nccl, 0, sizeof(nccl));
}

int nccl_is_in_group(void)
{
	return groups > 0;
}

static int take_lock(void)
{
	int held = lock_acquire(&nccl.lock, LOCK_WAIT);

	if (!held)
		losses_count(MT_LOST_BUSY);
	return held;
}

/* The lock is held, or its holder's change does not matter. */
static struct communicator *find_comm(const void *comm)
{
	for (unsigned i = 0; i < COMMS && comm; i++)
		if (nccl.comm[i].comm == comm)
			return &nccl.comm[i];
	return NULL;
}

static uint64_t sequence_of(const void *comm)
{
	const struct communicator *c = find_comm(comm);

	return c ? c->sequence : MT_UNKNOWN;
}

static void remember_comm(const struct communicator *made)
{
	unsigned i = 0;

	if (!take_lock())
		return;
	while (i < COMMS && nccl.comm[i].comm)
		i++;
	if (i < COMMS)
		nccl.comm[i] = *made;
	else
		losses_count(MT_LOST_LIMIT);
	lock_release(&nccl.lock);
}

static void describe(uint64_t sequence, int size, int rank, uint64_t parent)
{
	struct short_text key = { 0 }, value = { 0 };

	text_number(&key, sequence);
	text_str(&value, "size=");
	text_number(&value, (uint64_t)(size < 0 ? 0 : size));
	text_str(&value, " rank=");
	text_number(&value, (uint64_t)(rank < 0 ? 0 : rank));
	text_str(&value, " parent=");
	if (parent == MT_UNKNOWN)
		text_str(&value, "-");
	else
		text_number(&value, parent);
	tables_meta(MT_META_COMM, key.s, value.s, value.n);
}

static void describe_used(uint64_t sequence, int64_t used)
{
	struct short_text key = { 0 }, value = { 0 };

	if (sequence == MT_UNKNOWN)
		return;
	text_number(&key, sequence);
	text_number(&value, used > 0 ? (uint64_t)used : 0);
	tables_meta(MT_META_COMM_USED, key.s, value.s, value.n);
}

void nccl_add_used(void *comm, int64_t bytes)
{
	uint64_t sequence = MT_UNKNOWN;
	struct communicator *c;
	int64_t used = 0;

	if (!take_lock())
		return;
	c = find_comm(comm);
	if (c) {
		sequence = c->sequence;
		used = c->used += bytes;
	}
	lock_release(&nccl.lock);
	describe_used(sequence, used);
}

/* SYMBOL of the copy of NCCL that has MAKER; another copy could not use its communicators. NULL:
 * that copy has no such function. */
static void *find_beside(const void *maker, const char *symbol)
{
	void *found = resolve_beside(maker, symbol);
	char unused[1];

	return found && resolve_module(found, unused, 1) == resolve_module(maker, unused, 1) ? found
											     : NULL;
}

/* The memory that the copy of NCCL with MAKER holds for COMM, if that copy reports it (2.29.7
 * and later). */
static int ask_total(const void *maker, void *comm, uint64_t *bytes)
{
	int (*call)(void *, int, uint64_t *);

	*(void **)&call = find_beside(maker, "ncclCommMemStats");
	return call && call(comm, STAT_TOTAL, bytes) == NCCL_SUCCESS;
}

int nccl_ask_used(void *comm)
{
	const struct communicator *c = find_comm(comm);
	const void *maker = c ? c->maker : NULL;
	uint64_t bytes = 0;

	if (!maker || !ask_total(maker, comm, &bytes))
		return 0;
	if (c->comm == comm)
		nccl_add_used(comm, (int64_t)(bytes - c->bytes) - c->used);
	return 1;
}

/* The end is recorded before it happens: another communicator may get the same address. */
static void record_destroyed(const void *caller, void *comm)
{
	struct communicator gone = { 0 }, *c;
	struct module by;

	if (!comm || !recording_already() || !take_lock())
		return;
	c = find_comm(comm);
	if (c) {
		gone = *c;
		c->comm = NULL;
		if (gone.thread)
			atomic_fetch_sub(&nccl.undescribed, 1);
	}
	lock_release(&nccl.lock);
	if (!gone.comm)
		return;
	by = module_of(caller);
	memory_event(MT_COMM_DESTROY, gone.device, (uintptr_t)comm, -(int64_t)gone.bytes, &by,
		     memory_stack(&by, UINT64_MAX));
}

/* A call that creates a communicator. */
struct creation {
	const void *caller, *maker; /* of the call; the real function */
	int result;
	void **comm;
	int size, rank; /* size 0: is to be asked, see describe_later() */
	unsigned device;
	const struct counters_level *before; /* the call */
	const void *parent;                  /* the communicator that it is made of, or NULL */
};

static void record_created(const struct creation *c)
{
	struct communicator made = { .device = c->device, .maker = c->maker };
	struct counters_level after;
	uint64_t family;
	struct module by;

	if ((c->result != NCCL_SUCCESS && c->result != NCCL_IN_PROGRESS) || !c->comm || !*c->comm ||
	    !recording_on())
		return;
	made.comm = *c->comm;
	record_destroyed(c->caller, made.comm); /* the end of one at this address was not seen */
	after = counters_level(c->device);
	if (c->result != NCCL_SUCCESS || groups || !ask_total(c->maker, made.comm, &made.bytes))
		made.bytes = counters_nccl_took(c->before, &after);
	if (after.nccl > c->before->nccl)
		nccl_use_except(after.nccl - c->before->nccl);
	by = module_of(c->caller);
	family = sequence_of(c->parent);
	made.sequence = memory_event(MT_COMM_INIT, c->device, (uintptr_t)made.comm,
				     (int64_t)made.bytes, &by, memory_stack(&by, UINT64_MAX));
	if (made.sequence != MT_UNKNOWN && (c->size || c->result == NCCL_IN_PROGRESS))
		describe(made.sequence, c->size, c->rank, family);
	remember_comm(&made);
	counters_sample_now(c->device);
}

static struct counters_level level_now(unsigned *device)
{
	struct counters_level none = { .free_bytes = MT_UNKNOWN };

	if (!recording_on())
		return none;
	*device = memory_current_device();
	return counters_level(*device);
}

/* ---- creation */

/* Asks the copy of NCCL that made COMM. */
static int ask(const void *maker, const char *question, void *comm)
{
	int (*call)(const void *, int *);
	int answer = 0;

	*(void **)&call = find_beside(maker, question);
	return call && call(comm, &answer) == NCCL_SUCCESS ? answer : 0;
}

/* The thread of COMM, which was just recorded, describes it after its group: a communicator in
 * the making has no size yet. */
static void describe_later(void *comm, const void *parent)
{
	struct communicator *c;

	if (!take_lock())
		return;
	c = find_comm(comm);
	if (c) {
		c->parent = sequence_of(parent);
		c->thread = &groups;
		atomic_fetch_add(&nccl.undescribed, 1);
	}
	lock_release(&nccl.lock);
}

static void describe_now(void)
{
	for (unsigned i = 0; i < COMMS && atomic_load(&nccl.undescribed); i++) {
		struct communicator *c = &nccl.comm[i];
		void *comm = c->comm;
		if (!comm || c->thread != &groups)
			continue;
		c->thread = NULL;
		atomic_fetch_sub(&nccl.undescribed, 1);
		if (c->sequence == MT_UNKNOWN)
			continue;
		describe(c->sequence, ask(c->maker, "ncclCommCount", comm),
			 ask(c->maker, "ncclCommUserRank", comm), c->parent);
		nccl_ask_used(comm);
	}
}

#define CREATE(symbol, params, args, size, rank)                                                   \
	int symbol params                                                                          \
	{                                                                                          \
		__typeof__(symbol) *call = REAL(symbol);                                           \
		unsigned device = MT_NO_DEVICE;                                                    \
		struct counters_level before = level_now(&device);                                 \
		int result = call ? call args : NCCL_SYSTEM_ERROR;                                 \
		record_created(&(struct creation){ CALLER, (void *)call, result, comm, size, rank, \
						   device, &before, NULL });                       \
		if (groups && result == NCCL_SUCCESS && recording_already() && comm)               \
			describe_later(*comm, NULL);                                               \
		return result;                                                                     \
	}

CREATE(ncclCommInitRank, (void **comm, int size, struct nccl_id id, int rank),
       (comm, size, id, rank), size, rank)
CREATE(ncclCommInitRankConfig, (void **comm, int size, struct nccl_id id, int rank, void *config),
       (comm, size, id, rank, config), size, rank)
CREATE(ncclCommInitRankScalable,
       (void **comm, int size, int rank, int ids, struct nccl_id *id, void *config),
       (comm, size, rank, ids, id, config), size, rank)

/* All ranks are in one process. Memory on other devices than the current one shows only by
 * NCCL's own allocations. */
int ncclCommInitAll(void **comms, int devices, const int *list)
{
	__typeof__(ncclCommInitAll) *call = REAL(ncclCommInitAll);
	struct counters_level before[MT_MAX_DEVICES];
	int result;

	for (unsigned d = 0; d < MT_MAX_DEVICES; d++)
		before[d] = recording_on() ? counters_level(d)
					   : (struct counters_level){ .free_bytes = MT_UNKNOWN };
	result = call ? call(comms, devices, list) : NCCL_SYSTEM_ERROR;
	for (int i = 0; comms && i < devices; i++) {
		unsigned d = (unsigned)(list ? list[i] : i);
		if (d < MT_MAX_DEVICES)
			record_created(&(struct creation){ CALLER, (void *)call, result, &comms[i],
							   devices, i, d, &before[d], NULL });
	}
	return result;
}

/* A communicator made from another one: NCCL knows its size. */
static void record_made_of(const struct creation *c)
{
	record_created(c);
	if (c->result != NCCL_SUCCESS || !recording_already() || !c->comm || !*c->comm)
		return;
	describe_later(*c->comm, c->parent);
	if (!groups)
		describe_now();
}

int ncclCommSplit(void *comm, int color, int key, void **out, void *config)
{
	__typeof__(ncclCommSplit) *call = REAL(ncclCommSplit);
	unsigned device = MT_NO_DEVICE;
	struct counters_level before = level_now(&device);
	int result = call ? call(comm, color, key, out, config) : NCCL_SYSTEM_ERROR;

	if (color >= 0)
		record_made_of(&(struct creation){ CALLER, (void *)call, result, out, 0, 0, device,
						   &before, comm });
	return result;
}

int ncclCommShrink(void *comm, int *excluded, int count, void **out, void *config, int flags)
{
	__typeof__(ncclCommShrink) *call = REAL(ncclCommShrink);
	unsigned device = MT_NO_DEVICE;
	struct counters_level before = level_now(&device);
	int result = call ? call(comm, excluded, count, out, config, flags) : NCCL_SYSTEM_ERROR;

	record_made_of(&(struct creation){ CALLER, (void *)call, result, out, 0, 0, device, &before,
					   comm });
	return result;
}

/* COMM is NULL in a rank that is new. */
int ncclCommGrow(void *comm, int size, const struct nccl_id *id, int rank, void **out, void *config)
{
	__typeof__(ncclCommGrow) *call = REAL(ncclCommGrow);
	unsigned device = MT_NO_DEVICE;
	struct counters_level before = level_now(&device);
	int result = call ? call(comm, size, id, rank, out, config) : NCCL_SYSTEM_ERROR;

	record_made_of(&(struct creation){ CALLER, (void *)call, result, out, 0, 0, device, &before,
					   comm });
	return result;
}

int ncclGroupStart(void)
{
	__typeof__(ncclGroupStart) *call = REAL(ncclGroupStart);
	int result = call ? call() : NCCL_SYSTEM_ERROR;

	if (!groups)
		nccl_use_begin();
	groups += result == NCCL_SUCCESS;
	return result;
}

int ncclGroupEnd(void)
{
	__typeof__(ncclGroupEnd) *call = REAL(ncclGroupEnd);
	int result = call ? call() : NCCL_SYSTEM_ERROR;
	unsigned was = groups;

	groups -= was > 0;
	if (was == 1)
		nccl_use_end();
	if (!groups && atomic_load_explicit(&nccl.undescribed, memory_order_relaxed) &&
	    result == NCCL_SUCCESS && recording_already())
		describe_now();
	return result;
}

/* ---- end */

#define END(symbol)                                             \
	int symbol(void *comm)                                  \
	{                                                       \
		__typeof__(symbol) *call = REAL(symbol);        \
		int result;                                     \
		record_destroyed(CALLER, comm);                 \
		result = call ? call(comm) : NCCL_SYSTEM_ERROR; \
		memory_sample_if_due();                         \
		return result;                                  \
	}

END(ncclCommDestroy)
END(ncclCommAbort)

int ncclCommFinalize(void *comm)
{
	__typeof__(ncclCommFinalize) *call = REAL(ncclCommFinalize);
	int result = call ? call(comm) : NCCL_SYSTEM_ERROR;

	memory_sample_if_due();
	return result;
}

/* ---- buffers: seen as NCCL's own calls if it makes them through the driver, else recorded here */

int ncclMemAlloc(void **pointer, size_t bytes)
{
	__typeof__(ncclMemAlloc) *call = REAL(ncclMemAlloc);
	unsigned before = memory_recorded;
	int result = call ? call(pointer, bytes) : NCCL_SYSTEM_ERROR;

	if (memory_recorded != before || nesting_is_inside(FRAME) || !recording_may_be())
		return result;
	if (result == NCCL_SUCCESS && pointer)
		memory_allocated(CALLER, MT_DEVICE_ALLOC, result, (uintptr_t)*pointer, bytes);
	else if (result == NCCL_CUDA_ERROR)
		memory_allocated(CALLER, MT_DEVICE_ALLOC, MEMORY_REFUSED, 0, bytes);
	return result;
}

int ncclMemFree(void *pointer)
{
	__typeof__(ncclMemFree) *call = REAL(ncclMemFree);
	struct mt_record freed = { 0 };
	int result;

	if (!nesting_is_inside(FRAME) && recording_already())
		freed = memory_before_free(CALLER, (uintptr_t)pointer);
	result = call ? call(pointer) : NCCL_SYSTEM_ERROR;
	if (freed.kind)
		memory_after_free(CALLER, &freed, result);
	return result;
}
