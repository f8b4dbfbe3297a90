/* The known communicators. One beyond the limit is counted as lost: its end, and the parent of its
 * children, are not known. */
#include "hooks/nccl_comms.h"

#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "base/text.h"
#include "hooks/nccl.h"
#include "record/losses.h"
#include "record/tables.h"
#include "symbols/resolve.h"

#define COMMS 256
#define STAT_TOTAL 3 /* ncclStatGpuMemTotal: a communicator's memory on the device */

static struct {
	struct lock lock;
	struct communicator comm[COMMS];
	atomic_uint undescribed;
} nccl;

/* Its address stands for the thread. */
static __thread char self __attribute__((tls_model("initial-exec")));

void comms_forget(void)
{
	memset(&nccl, 0, sizeof(nccl));
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

uint64_t comms_sequence(const void *comm)
{
	const struct communicator *c = find_comm(comm);

	return c ? c->sequence : MT_UNKNOWN;
}

void comms_remember(const struct communicator *made)
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

void comms_describe(uint64_t sequence, int size, int rank, uint64_t parent)
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

void comms_add_used(void *comm, int64_t bytes)
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

int comms_ask_total(const void *maker, void *comm, uint64_t *bytes)
{
	int (*call)(void *, int, uint64_t *);

	*(void **)&call = find_beside(maker, "ncclCommMemStats");
	return call && call(comm, STAT_TOTAL, bytes) == NCCL_SUCCESS;
}

int comms_ask_used(void *comm)
{
	const struct communicator *c = find_comm(comm);
	const void *maker = c ? c->maker : NULL;
	uint64_t bytes = 0;

	if (!maker || !comms_ask_total(maker, comm, &bytes))
		return 0;
	if (c->comm == comm)
		comms_add_used(comm, (int64_t)(bytes - c->bytes) - c->used);
	return 1;
}

int comms_take(void *comm, struct communicator *gone)
{
	struct communicator *c;

	if (!take_lock())
		return 0;
	c = find_comm(comm);
	if (c) {
		*gone = *c;
		c->comm = NULL;
		if (gone->thread)
			atomic_fetch_sub(&nccl.undescribed, 1);
	}
	lock_release(&nccl.lock);
	return c != NULL;
}

int comms_are_undescribed(void)
{
	return atomic_load_explicit(&nccl.undescribed, memory_order_relaxed) != 0;
}

/* Asks the copy of NCCL that made COMM. */
static int ask(const void *maker, const char *question, void *comm)
{
	int (*call)(const void *, int *);
	int answer = 0;

	*(void **)&call = find_beside(maker, question);
	return call && call(comm, &answer) == NCCL_SUCCESS ? answer : 0;
}

void comms_describe_later(void *comm, const void *parent)
{
	struct communicator *c;

	if (!take_lock())
		return;
	c = find_comm(comm);
	if (c) {
		c->parent = comms_sequence(parent);
		c->thread = &self;
		atomic_fetch_add(&nccl.undescribed, 1);
	}
	lock_release(&nccl.lock);
}

void comms_describe_now(void)
{
	for (unsigned i = 0; i < COMMS && atomic_load(&nccl.undescribed); i++) {
		struct communicator *c = &nccl.comm[i];
		void *comm = c->comm;
		if (!comm || c->thread != &self)
			continue;
		c->thread = NULL;
		atomic_fetch_sub(&nccl.undescribed, 1);
		if (c->sequence == MT_UNKNOWN)
			continue;
		comms_describe(c->sequence, ask(c->maker, "ncclCommCount", comm),
			       ask(c->maker, "ncclCommUserRank", comm), c->parent);
		comms_ask_used(comm);
	}
}
