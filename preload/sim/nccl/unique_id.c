#define _GNU_SOURCE
#include "nccl/unique_id.h"

#include <memtrace/fnv.h>
#include "nccl/nccl.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6d697365617564) /* "cudasim" */

struct identity {
	uint64_t magic;
	uint64_t job;            /* hash of torchrun's run id and the address of its store */
	int32_t rank, number;    /* the rank that made it, and the number of its call */
	int32_t attempt, unused; /* from 0 */
};
_Static_assert(sizeof(struct identity) <= UNIQUE_ID, "an identity fits");

static void add_text(uint64_t *hash, const char *name)
{
	const char *text = getenv(name);
	if (text)
		*hash = fnv_add(*hash, text, strlen(text));
	*hash = fnv_add(*hash, "\n", 1);
}

static int number_of(const char *name)
{
	const char *text = getenv(name);
	return text ? atoi(text) : 0;
}

/* The identity of this process's job and attempt; false: torchrun did not start it. */
static bool present(struct identity *identity)
{
	uint64_t job = FNV_START;
	if (!getenv("TORCHELASTIC_RUN_ID") || !getenv("RANK"))
		return false;
	add_text(&job, "TORCHELASTIC_RUN_ID");
	add_text(&job, "MASTER_ADDR");
	add_text(&job, "MASTER_PORT");
	*identity = (struct identity){ .magic = MAGIC,
				       .job = job,
				       .rank = number_of("RANK"),
				       .attempt = number_of("TORCHELASTIC_RESTART_COUNT") };
	return true;
}

static int make_random(struct unique_id *id)
{
	int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? -1 : read(file, id, sizeof *id);
	if (file >= 0)
		close(file);
	return got == (ssize_t)sizeof *id ? NCCL_OK : NCCL_SYSTEM_ERROR;
}

int unique_id_make(struct unique_id *id)
{
	static _Atomic int count;
	struct identity identity;
	if (!present(&identity))
		return make_random(id);
	identity.number = atomic_fetch_add(&count, 1);
	*id = (struct unique_id){ { 0 } };
	memcpy(id->bytes, &identity, sizeof identity);
	return NCCL_OK;
}

void unique_id_renew(struct unique_id *id)
{
	struct identity now, was;
	memcpy(&was, id->bytes, sizeof was);
	if (was.magic != MAGIC || !present(&now) || was.job != now.job)
		return;
	was.attempt = now.attempt;
	memcpy(id->bytes, &was, sizeof was);
}
