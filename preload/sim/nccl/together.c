/* Ranks that run at once while the rest of the job does not. The store of memtrace simulate names
 * the ranks that run, and is told when this rank waits for another one
 * (include/memtrace/together.h). */
#define _GNU_SOURCE
#include "nccl/together.h"

#include "device/settings.h"
#include "nccl/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct together *board;
static struct together_rank *own;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* CUDASIM_TOGETHER is FILE:ROW. */
static void open_board(void)
{
	const char *colon = strrchr(settings.together, ':');
	unsigned long row = colon ? strtoul(colon + 1, NULL, 10) : TOGETHER_RANKS;
	char path[sizeof settings.together] = "";
	if (!colon || row >= TOGETHER_RANKS) {
		sim_say("CUDASIM_TOGETHER=%s: expected FILE:ROW, as memtrace simulate --together sets it",
			settings.together);
		return;
	}
	memcpy(path, settings.together, (size_t)(colon - settings.together));
	int file = open(path, O_RDWR | O_CLOEXEC);
	void *map =
		file < 0 ? MAP_FAILED
			 : mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED) {
		sim_say("CUDASIM_TOGETHER: %s: %s", path, strerror(errno));
	} else {
		board = map;
		own = &board->rank[row];
	}
	if (file >= 0)
		close(file);
}

static bool has_board(void)
{
	if (*settings.together)
		pthread_once(&once, open_board);
	return board;
}

static const struct together_group *find(uint64_t id)
{
	for (uint32_t i = atomic_load(&board->groups); i-- > 0;)
		if (i < TOGETHER_GROUPS && board->group[i].id == id)
			return &board->group[i];
	return NULL;
}

/* Rank 0 sends its id to the store just before it comes here: this waits for the store to read it.
 */
int together_members(struct comm *comm)
{
	const struct together_group *group = NULL;
	uint64_t id = together_hash(&comm->id, sizeof comm->id);
	if (!has_board())
		return NCCL_SYSTEM_ERROR;
	for (uint64_t ms = 0; !(group = find(id)) && ms < settings.timeout * 1000; ms++)
		usleep(1000);
	if (!group) {
		sim_say("ncclCommInitRank: rank %d of %d: the id of this communicator did not come through PyTorch's store, so which of "
			"its ranks run together is not known; run each rank alone, or all of them",
			comm->rank, comm->ranks);
		return NCCL_INVALID_USAGE;
	}
	for (uint32_t i = 0; i < group->count && i < COMM_RANKS; i++)
		if (group->rank[i] >= 0 && group->rank[i] < comm->ranks)
			comm->member[comm->members++] = group->rank[i];
	return NCCL_OK;
}

void together_waits(bool begins)
{
	if (has_board())
		atomic_fetch_add(&own->waits, begins ? 1u : -1u);
}

void together_looked(void)
{
	if (own)
		atomic_fetch_add(&own->turns, 1);
}

void together_where(const char *text)
{
	if (own)
		snprintf(own->where, sizeof own->where, "%s", text);
}
