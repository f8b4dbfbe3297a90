/*
 * NCCL: communicators as they come and go, and what each took. The memory itself is recorded as
 * NCCL asks the driver for it, with NCCL as its owner: these wrappers do not count as calls that
 * others are inside of.
 */
#define _GNU_SOURCE
#include "entries.h"

#include "nccl.h"

#include <stdatomic.h>
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
		uint64_t sequence, bytes, used;
		unsigned device;
		uint64_t parent;    /* of one whose size is still to be asked: of its parent's record */
		const void *by;	    /* the function that made it; NULL: nothing is to be asked */
		const void *thread; /* that does it, at the end of its group */
	} comm[COMMS];
	atomic_uint unasked;
} n;

/* ncclGroupStart() less ncclGroupEnd(): inside, what is created exists only afterwards. */
static __thread unsigned groups __attribute__((tls_model("initial-exec")));

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
	if (!lock_acquire(&n.lock, LOCK_WAIT))
		return;
	for (unsigned i = 0; i < COMMS; i++)
		if (!n.comm[i].comm) {
			n.comm[i].sequence = sequence;
			n.comm[i].bytes = bytes;
			n.comm[i].used = 0;
			n.comm[i].device = device;
			n.comm[i].by = NULL;
			n.comm[i].comm = comm;
			break;
		}
	lock_release(&n.lock);
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

void nccl_took(void *comm, uint64_t bytes)
{
	uint64_t sequence = MT_UNKNOWN, used = 0;
	struct short_text key = { 0 }, value = { 0 };

	if (!lock_acquire(&n.lock, LOCK_WAIT))
		return;
	for (unsigned i = 0; i < COMMS; i++)
		if (n.comm[i].comm == comm) {
			sequence = n.comm[i].sequence;
			used = n.comm[i].used += bytes;
			break;
		}
	lock_release(&n.lock);
	if (sequence == MT_UNKNOWN)
		return;
	text_number(&key, sequence);
	text_number(&value, used);
	tables_meta(MT_META_COMM_USED, key.s, value.s, value.n);
}

/* A communicator came to be between BEFORE and now. SIZE 0: it is to be asked, see ask_later(). */
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
	if (after.nccl > before->nccl)
		nccl_use_except(after.nccl - before->nccl);
	by = module_of(caller);
	family = sequence_of(parent);
	sequence = memory_event(MT_COMM_INIT, device, (uintptr_t)*comm, (int64_t)bytes, &by,
				memory_place(&by, UINT64_MAX));
	if (sequence != MT_UNKNOWN && (size || result == NCCL_IN_PROGRESS))
		describe(sequence, size, rank, family);
	remember(*comm, sequence, bytes, device);
	account_sample_now(device);
}

static void gone(const void *caller, void *comm)
{
	uint64_t bytes = 0;
	unsigned device = MT_NO_DEVICE, known = 0;
	struct module by;

	if (!comm || !recording_on() || !lock_acquire(&n.lock, LOCK_WAIT))
		return;
	for (unsigned i = 0; i < COMMS && !known; i++)
		if (n.comm[i].comm == comm) {
			known = 1;
			bytes = n.comm[i].bytes;
			device = n.comm[i].device;
			n.comm[i].comm = NULL;
			if (n.comm[i].by) {
				n.comm[i].by = NULL;
				atomic_fetch_sub(&n.unasked, 1);
			}
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

/* Asks the copy of NCCL that made COMM. */
static int ask(const void *by, const char *question, void *comm)
{
	int (*call)(const void *, int *);
	int answer = 0;

	*(void **)&call = resolve_beside(by, question);
	return call && call(comm, &answer) == NCCL_SUCCESS ? answer : 0;
}

/* The size of COMM, which was just recorded, is for its thread to ask when its group is done. */
static void ask_later(void *comm, const void *by, const void *parent)
{
	if (!lock_acquire(&n.lock, LOCK_WAIT))
		return;
	for (unsigned i = 0; i < COMMS; i++)
		if (n.comm[i].comm == comm) {
			n.comm[i].parent = sequence_of(parent);
			n.comm[i].by = by;
			n.comm[i].thread = &groups;
			atomic_fetch_add(&n.unasked, 1);
			break;
		}
	lock_release(&n.lock);
}

static void ask_now(void)
{
	for (unsigned i = 0; i < COMMS && atomic_load(&n.unasked); i++) {
		const void *by = n.comm[i].by;
		void *comm = n.comm[i].comm;
		if (!comm || !by || n.comm[i].thread != &groups)
			continue;
		n.comm[i].by = NULL;
		atomic_fetch_sub(&n.unasked, 1);
		if (n.comm[i].sequence != MT_UNKNOWN)
			describe(n.comm[i].sequence, ask(by, "ncclCommCount", comm),
				 ask(by, "ncclCommUserRank", comm), n.comm[i].parent);
	}
}

int ncclCommSplit(void *comm, int color, int key, void **out, void *config)
{
	__typeof__(ncclCommSplit) *call = REAL(ncclCommSplit);
	unsigned device = MT_NO_DEVICE;
	struct account_level before = now(&device);
	int result = call ? call(comm, color, key, out, config) : NCCL_SYSTEM_ERROR;

	created(CALLER, color >= 0 ? result : NCCL_SYSTEM_ERROR, out, 0, 0, device, &before, comm);
	if (result != NCCL_SUCCESS || !recording_already() || !out || !*out || color < 0)
		return result;
	ask_later(*out, (void *)call, comm);
	if (!groups) /* one in the making until its group ends has no size yet */
		ask_now();
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
	if (!groups && atomic_load_explicit(&n.unasked, memory_order_relaxed) &&
	    result == NCCL_SUCCESS && recording_already())
		ask_now();
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

	if (result == NCCL_SUCCESS && pointer && memory_recorded == before && !hooks_is_nested(FRAME))
		memory_allocated(CALLER, MT_DEVICE_ALLOC, result, (uintptr_t)*pointer, bytes);
	return result;
}

int ncclMemFree(void *pointer)
{
	__typeof__(ncclMemFree) *call = REAL(ncclMemFree);
	struct mt_record freed = { 0 };
	int result;

	if (!hooks_is_nested(FRAME) && recording_already())
		freed = memory_before_free(CALLER, (uintptr_t)pointer);
	result = call ? call(pointer) : NCCL_SYSTEM_ERROR;
	if (freed.kind)
		memory_after_free(CALLER, &freed, result);
	return result;
}
