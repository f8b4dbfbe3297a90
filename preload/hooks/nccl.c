/*
 * NCCL: the creation and end of communicators, and the memory that each took. The memory itself
 * is recorded when NCCL asks the driver for it, with NCCL as its owner: a call inside one of
 * these wrappers does not count as nested.
 */
#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/nccl.h"
#include "hooks/nccl_comms.h"
#include "hooks/nccl_use.h"

#include <stdint.h>

#include "memory/counters.h"
#include "memory/memory.h"
#include "record/state.h"

/* The end is recorded before it happens: another communicator may get the same address. */
static void record_destroyed(const void *caller, void *comm)
{
	struct communicator gone;
	struct module by;

	if (!comm || !recording_already() || !comms_take(comm, &gone))
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
	int size, rank; /* size 0: is to be asked, see comms_describe_later() */
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
	if (c->result != NCCL_SUCCESS || nccl_is_in_group() ||
	    !comms_ask_total(c->maker, made.comm, &made.bytes))
		made.bytes = counters_nccl_took(c->before, &after);
	if (after.nccl > c->before->nccl)
		nccl_group_except(after.nccl - c->before->nccl);
	by = module_of(c->caller);
	family = comms_sequence(c->parent);
	made.sequence = memory_event(MT_COMM_INIT, c->device, (uintptr_t)made.comm,
				     (int64_t)made.bytes, &by, memory_stack(&by, UINT64_MAX));
	if (made.sequence != MT_UNKNOWN && (c->size || c->result == NCCL_IN_PROGRESS))
		comms_describe(made.sequence, c->size, c->rank, family);
	comms_remember(&made);
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

#define CREATE(symbol, params, args, size, rank)                                                   \
	int symbol params                                                                          \
	{                                                                                          \
		__typeof__(symbol) *call = REAL(symbol);                                           \
		unsigned device = MT_NO_DEVICE;                                                    \
		struct counters_level before = level_now(&device);                                 \
		int result = call ? call args : NCCL_SYSTEM_ERROR;                                 \
		record_created(&(struct creation){ CALLER, (void *)call, result, comm, size, rank, \
						   device, &before, NULL });                       \
		if (nccl_is_in_group() && result == NCCL_SUCCESS && recording_already() && comm)   \
			comms_describe_later(*comm, NULL);                                         \
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
	comms_describe_later(*c->comm, c->parent);
	if (!nccl_is_in_group())
		comms_describe_now();
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

	nccl_group_start(result == NCCL_SUCCESS);
	return result;
}

int ncclGroupEnd(void)
{
	__typeof__(ncclGroupEnd) *call = REAL(ncclGroupEnd);
	int result = call ? call() : NCCL_SYSTEM_ERROR;

	nccl_group_end();
	if (!nccl_is_in_group() && comms_are_undescribed() && result == NCCL_SUCCESS &&
	    recording_already())
		comms_describe_now();
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
