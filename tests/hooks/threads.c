/*
 * 8 threads allocate and free at random in every way there is, sometimes what another thread
 * allocated: threads SEED STEPS [without-managed]
 *
 * The model is the program's own count. Prints: live KIND BYTES ALLOCS FREES, of what is left at
 * the end and of what was done.
 */
#define _GNU_SOURCE
#include "expect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, SLOTS = 256, LINEAR = 0, POOL, MANAGED, HOST, PHYSICAL, KINDS };

struct slot {
	uint64_t address;
	long long bytes;
	int kind;
};

static const char *const names[KINDS] = { "device", "pool", "managed", "host", "physical" };
static _Atomic long long live[KINDS], allocs[KINDS], frees[KINDS];
static struct slot slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned seed, steps;
static int without_managed;

static struct slot take(unsigned i)
{
	struct slot s;

	pthread_mutex_lock(&lock);
	s = slots[i];
	slots[i].address = 0;
	pthread_mutex_unlock(&lock);
	return s;
}

/* Returns the earlier content. */
static struct slot put(unsigned i, struct slot s)
{
	struct slot was;

	pthread_mutex_lock(&lock);
	was = slots[i];
	slots[i] = s;
	pthread_mutex_unlock(&lock);
	return was;
}

static int give(struct slot *s, unsigned *random, unsigned long long size)
{
	CUmemAllocationProp where = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	unsigned driver = rand_r(random) & 1;
	CUdeviceptr d = 0;
	void *p = NULL;
	int result;

	switch (s->kind) {
	case LINEAR:
		s->bytes = (long long)size;
		result = driver ? (int)cuMemAlloc_v2(&d, size) : (int)cudaMalloc(&p, size);
		break;
	case POOL:
		s->bytes = (long long)size;
		result = driver ? (int)cuMemAllocAsync(&d, size, NULL)
				: (int)cudaMallocAsync(&p, size, NULL);
		break;
	case MANAGED:
		s->bytes = (long long)size;
		result = driver ? (int)cuMemAllocManaged(&d, size, CU_MEM_ATTACH_GLOBAL)
				: (int)cudaMallocManaged(&p, size, cudaMemAttachGlobal);
		break;
	case HOST:
		s->bytes = (long long)(size = size % 65536 + 512);
		result =
			driver ? (int)cuMemHostAlloc(&p, size, 0) : (int)cudaHostAlloc(&p, size, 0);
		break;
	default:
		s->bytes = (long long)(size = (size % 8 + 1) * 2 * MiB);
		result = (int)cuMemCreate((CUmemGenericAllocationHandle *)&d, size, &where, 0);
	}
	s->address = p ? (uint64_t)(uintptr_t)p : d;
	return result;
}

static int give_back(const struct slot *s, unsigned *random)
{
	void *p = (void *)(uintptr_t)s->address;
	unsigned how = (unsigned)rand_r(random) & 1;

	switch (s->kind) {
	case HOST:
		return how ? (int)cuMemFreeHost(p) : (int)cudaFreeHost(p);
	case PHYSICAL:
		return (int)cuMemRelease(s->address);
	case POOL:
		if (how)
			return (int)cudaFreeAsync(p, NULL);
		/* fall through */
	default:
		return how ? (int)cuMemFree_v2(s->address) : (int)cudaFree(p);
	}
}

static void lose(struct slot s, unsigned *random)
{
	if (!s.address)
		return;
	live[s.kind] -= s.bytes;
	frees[s.kind]++;
	check("free", give_back(&s, random), 0);
}

static void *work(void *number)
{
	unsigned random = seed * 1000 + (unsigned)(uintptr_t)number;

	for (unsigned i = 0; i < steps; i++) {
		unsigned at = (unsigned)rand_r(&random) % SLOTS;
		struct slot s = { .kind = rand_r(&random) % KINDS };

		if (s.kind == MANAGED && without_managed)
			s.kind = LINEAR;
		if (rand_r(&random) % 5 < 2) {
			lose(take(at), &random);
			continue;
		}
		/* multiples of 512, so that a pool's rounding adds nothing */
		check("allocation",
		      give(&s, &random, ((unsigned)rand_r(&random) % 8192 + 1) * 512ull), 0);
		live[s.kind] += s.bytes;
		allocs[s.kind]++;
		lose(put(at, s), &random);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	if (argc < 3)
		return 2;
	seed = (unsigned)atoi(argv[1]);
	steps = (unsigned)atoi(argv[2]);
	without_managed = argc > 3;
	check("cuInit", (int)cuInit(0), 0);
	/* the trace begins with device memory; the threads may well begin with the host's */
	slots[0] = (struct slot){ .bytes = 4096, .kind = LINEAR };
	check("cudaMalloc", (int)cudaMalloc((void **)&slots[0].address, 4096), 0);
	allocs[LINEAR]++;
	live[LINEAR] += 4096;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].address)
			printf("slot %s %llu %lld\n", names[slots[i].kind],
			       (unsigned long long)slots[i].address, slots[i].bytes);
	for (int k = 0; k < KINDS; k++)
		printf("live %s %lld %lld %lld\n", names[k], live[k], allocs[k], frees[k]);
	return failed;
}
