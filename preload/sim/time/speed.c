#include "time/speed.h"

#include "device/common.h"
#include "device/gpu.h"
#include "device/memory.h"
#include "device/settings.h"

#include <string.h>

static const struct speed {
	const char *name;
	/* GB/s, which are bytes per ns, and TFLOP/s */
	double memory, half, single, peers, host, network;
} speeds[] = {
#define SPEED(...) { __VA_ARGS__ },
#include "time/speeds.def"
#undef SPEED
};

/* A thread of a kernel that streams through memory reads two vectors and writes one: 16 bytes is
 * the widest access of a thread (CUDA C++ programming guide, "device memory accesses"). */
enum { VECTOR = 16, OPERANDS = 3 };
/* Ranks of a node are joined by NVLink. */
enum { NODE = 8 };
/* ns of a round: NCCL's own tuning table has some microseconds for a step over NVLink ("simple"
 * protocol, baseLat of tuning.cc). */
enum { ROUND = 4000 };

static const struct speed *find(const char *name)
{
	for (size_t i = 0; i < LENGTH(speeds); i++)
		if (!strcmp(speeds[i].name, name))
			return &speeds[i];
	return NULL;
}

bool speed_known(const char *gpu)
{
	return find(gpu);
}

static const struct speed *card(void)
{
	static const struct speed *_Atomic found;
	if (!found)
		found = find(settings.card->name);
	return found ? found : speeds;
}

uint64_t speed_memory(uint64_t bytes)
{
	return (uint64_t)((double)bytes / card()->memory);
}

uint64_t speed_copy(const void *to, const void *from, uint64_t bytes)
{
	if (memory_is_device(to) && memory_is_device(from))
		return speed_memory(2 * bytes);
	return (uint64_t)((double)bytes / card()->host);
}

uint64_t speed_threads(uint64_t threads)
{
	return speed_memory(product(threads, VECTOR * OPERANDS));
}

/* The arithmetic, or the operands' way through memory if that takes longer. 8-bit floats go twice
 * as fast as halves from compute capability 8.9 on; TF32 half as fast as halves from 8.0 on. */
uint64_t speed_product(uint64_t m, uint64_t n, uint64_t k, uint64_t batch, enum precision precision)
{
	const struct gpu *gpu = settings.card;
	const struct speed *speed = card();
	bool has_eight = gpu->major > 8 || (gpu->major == 8 && gpu->minor >= 9);
	double rate = speed->half, size = 2, M = (double)m, N = (double)n, K = (double)k;
	if (precision == PRECISION_EIGHT && has_eight)
		rate *= 2, size = 1;
	else if (precision == PRECISION_TF32 && gpu->major >= 8)
		rate /= 2, size = 4;
	else if (precision >= PRECISION_TF32)
		rate = speed->single, size = 4;
	double arithmetic = 2 * M * N * K / (rate * 1e3);
	double operands = size * (M * K + K * N + M * N) / speed->memory;
	return (uint64_t)((arithmetic > operands ? arithmetic : operands) * (double)batch);
}

uint64_t speed_peers(uint64_t bytes, int ranks, int steps)
{
	double rate = ranks <= NODE ? card()->peers : card()->network;
	return (uint64_t)((double)bytes / rate) + (uint64_t)steps * ROUND;
}
