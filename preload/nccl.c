/*
 * NCCL: communicators as they come and go, and what each took. The memory itself is recorded as
 * NCCL asks the driver for it, with NCCL as its owner: these wrappers do not count as calls that
 * others are inside of.
 */
#define _GNU_SOURCE
#include "entries.h"

#include "nccl.h"

#include <stdint.h>
#include <string.h>

#include "account.h"
#include "lock.h"
#include "memory.h"
#include "recording.h"
#include "resolve.h"
#include "tables.h"
#include "text.h"

#define COMMS 256

/* The communicators there are: a COMM_INIT of each. Beyond so many, their ends and parents are not
 * known. */
static struct {
	struct lock lock;
	struct {
		void *comm;
		uint64_t sequence, bytes;
		unsigned device;
	} comm[COMMS];
} n;

void nccl_forget(void)
{
	memset(&n, 0, sizeof(n));
}

static uint64_t sequence_of(const void *comm)
{
	uint64_t sequence = MT_UNKNOWN;

	for (unsigned i = 0; i < COMMS && comm; i++)
		if (n.comm[i].comm == comm)
			sequence = n.comm[i].sequence;
	return sequence;
}

static void remember(void *comm, uint64_t sequence, uint64_t bytes, unsigned device)
{
	if (!lock_acquire(&n.lock, LOCK_MS(20)))
		return;
	for (unsigned i = 0; i < COMMS; i++)
		if (!n.comm[i].comm) {
			n.comm[i].sequence = sequence;
			n.comm[i].bytes = bytes;
			n.comm[i].device = device;
			n.comm[i].comm = comm;
			break;
		}
	lock_release(&n.lock);
}

static void describe(uint64_t sequence, int size, int rank, uint64_t parent)
{
	struct text key = { 0 }, value = { 0 };

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

/* A communicator came to be between BEFORE and now. */
static void created(const void *caller, int result, void **comm, int size, int rank,
		    unsigned device, const struct account_level *before, const void *parent)
{
	struct account_level after;
	uint64_t sequence, bytes, family;
	struct module by;

	if ((result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) || !comm || !*comm ||
	    !recording_on())
		return;
	after = account_level(device);
	bytes = account_nccl_took(before, &after);
	by = module_of(caller);
	family = sequence_of(parent);
	sequence = memory_event(MT_COMM_INIT, device, (uintptr_t)*comm, (int64_t)bytes, &by,
				memory_place(&by, UINT64_MAX));
	if (sequence != MT_UNKNOWN)
		describe(sequence, size, rank, family);
	remember(*comm, sequence, bytes, device);
	account_sample_now(device);
}

static void gone(const void *caller, void *comm)
{
	uint64_t bytes = 0;
	unsigned device = MT_NO_DEVICE, known = 0;
	struct module by;

	if (!comm || !recording_on() || !lock_acquire(&n.lock, LOCK_MS(20)))
		return;
	for (unsigned i = 0; i < COMMS && !known; i++)
		if (n.comm[i].comm == comm) {
			known = 1;
			bytes = n.comm[i].bytes;
			device = n.comm[i].device;
			n.comm[i].comm = NULL;
		}
	lock_release(&n.lock);
	if (!known)
		return;
	by = module_of(caller);
	memory_event(MT_COMM_DESTROY, device, (uintptr_t)comm, -(int64_t)bytes, &by,
		     memory_place(&by, UINT64_MAX));
}

static struct account_level now(unsigned *device)
{
	struct account_level none = { .free_bytes = MT_UNKNOWN };

	if (!recording_on())
		return none;
	*device = memory_current_device();
	return account_level(*device);
}

/* ---- creation */

#define CREATE(symbol, params, args, size, rank)                                  \
	int symbol params                                                         \
	{                                                                         \
		__typeof__(symbol) *call = REAL(symbol);                          \
		unsigned device = MT_NO_DEVICE;                                   \
		struct account_level before = now(&device);                       \
		int result = call ? call args : NCCL_SYSTEM_ERROR;                \
		created(CALLER, result, comm, size, rank, device, &before, NULL); \
		return result;                                                    \
	}

CREATE(ncclCommInitRank, (void **comm, int size, struct nccl_id id, int rank),
       (comm, size, id, rank), size, rank)
CREATE(ncclCommInitRankConfig, (void **comm, int size, struct nccl_id id, int rank, void *config),
       (comm, size, id, rank, config), size, rank)
CREATE(ncclCommInitRankScalable,
       (void **comm, int size, int rank, int ids, struct nccl_id *id, void *config),
       (comm, size, rank, ids, id, config), size, rank)

/* All ranks in one process. What is not on the current device shows only by NCCL's own allocations.
 */
int ncclCommInitAll(void **comms, int devices, const int *list)
{
	__typeof__(ncclCommInitAll) *call = REAL(ncclCommInitAll);
	struct account_level before[MT_MAX_DEVICES];
	int result;

	for (unsigned d = 0; d < MT_MAX_DEVICES; d++)
		before[d] = recording_on() ? account_level(d)
					   : (struct account_level){ .free_bytes = MT_UNKNOWN };
	result = call ? call(comms, devices, list) : NCCL_SYSTEM_ERROR;
	for (int i = 0; comms && i < devices; i++) {
		unsigned d = (unsigned)(list ? list[i] : i);
		if (d < MT_MAX_DEVICES)
			created(CALLER, result, &comms[i], devices, i, d, &before[d], NULL);
	}
	return result;
}

static int ask(const char *question, void *comm)
{
	int (*call)(const void *, int *);
	int answer = 0;

	*(void **)&call = resolve(question);
	return call && call(comm, &answer) == NCCL_SUCCESS ? answer : 0;
}

int ncclCommSplit(void *comm, int color, int key, void **out, void *config)
{
	__typeof__(ncclCommSplit) *call = REAL(ncclCommSplit);
	unsigned device = MT_NO_DEVICE;
	struct account_level before = now(&device);
	int result = call ? call(comm, color, key, out, config) : NCCL_SYSTEM_ERROR;

	/* A communicator still in the making has no size yet. */
	if (result == NCCL_SUCCESS && out && *out)
		created(CALLER, result, out, ask("ncclCommCount", *out),
			ask("ncclCommUserRank", *out), device, &before, comm);
	else if (color >= 0)
		created(CALLER, result, out, 0, 0, device, &before, comm);
	return result;
}

/* ---- end */

/* Recorded before it happens: another communicator may get the same address. */
#define END(symbol)                                             \
	int symbol(void *comm)                                  \
	{                                                       \
		__typeof__(symbol) *call = REAL(symbol);        \
		int result;                                     \
		gone(CALLER, comm);                             \
		result = call ? call(comm) : NCCL_SYSTEM_ERROR; \
		memory_note();                                  \
		return result;                                  \
	}

END(ncclCommDestroy)
END(ncclCommAbort)

int ncclCommFinalize(void *comm)
{
	__typeof__(ncclCommFinalize) *call = REAL(ncclCommFinalize);
	int result = call ? call(comm) : NCCL_SYSTEM_ERROR;

	memory_note();
	return result;
}

/* ---- buffers: seen as NCCL's own calls where it makes them through the driver, else recorded here
 */

int ncclMemAlloc(void **pointer, size_t bytes)
{
	__typeof__(ncclMemAlloc) *call = REAL(ncclMemAlloc);
	unsigned before = memory_recorded;
	int result = call ? call(pointer, bytes) : NCCL_SYSTEM_ERROR;

	if (result == NCCL_SUCCESS && pointer && memory_recorded == before && hooks_depth == 0)
		memory_allocated(CALLER, MT_DEVICE_ALLOC, result, (uintptr_t)*pointer, bytes);
	return result;
}

int ncclMemFree(void *pointer)
{
	__typeof__(ncclMemFree) *call = REAL(ncclMemFree);
	struct mt_record freed = { 0 };
	int result;

	if (hooks_depth == 0)
		freed = memory_before_free(CALLER, (uintptr_t)pointer);
	result = call ? call(pointer) : NCCL_SYSTEM_ERROR;
	memory_after_free(CALLER, &freed, result);
	return result;
}
