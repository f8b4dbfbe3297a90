/* Page-locked host memory: plain pages (locking them would make a simulation expensive), and a
 * list, because PyTorch asks whether a pointer is pinned. */
#include "device/host.h"

#include "device/common.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct range {
	uint64_t start, length;
	bool ours; /* mapped here; else registered */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;
static size_t count, capacity;

/* Index of the last range that begins at or before the address; -1: none. */
static long before(uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (ranges[middle].start > address)
			high = middle;
		else
			low = middle + 1;
	}
	return (long)low - 1;
}

static bool overlaps(uint64_t start, uint64_t length)
{
	long i = before(start + length - 1);
	return i >= 0 && ranges[i].start + ranges[i].length > start;
}

static bool add(uint64_t start, uint64_t length, bool ours)
{
	struct range *roomy = room_for_one(ranges, count, &capacity, sizeof *ranges);
	if (!roomy)
		return false;
	ranges = roomy;
	size_t at = (size_t)(before(start) + 1);
	memmove(&ranges[at + 1], &ranges[at], (count - at) * sizeof *ranges);
	ranges[at] = (struct range){ start, length, ours };
	count++;
	return true;
}

static bool take_out(uint64_t start, bool ours, uint64_t *length)
{
	long i = before(start);
	if (i < 0 || ranges[i].start != start || ranges[i].ours != ours)
		return false;
	*length = ranges[i].length;
	count--;
	memmove(&ranges[i], &ranges[i + 1], (count - (size_t)i) * sizeof *ranges);
	return true;
}

int host_alloc(uint64_t size, unsigned flags, void **pointer)
{
	(void)flags;
	*pointer = NULL;
	if (!size)
		return SIM_OK;
	uint64_t length = round_up(size, 4096);
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return SIM_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	bool added = add((uint64_t)p, length, true);
	pthread_mutex_unlock(&lock);
	if (!added) {
		munmap(p, length);
		return SIM_OUT_OF_MEMORY;
	}
	*pointer = p;
	return SIM_OK;
}

int host_free(void *pointer)
{
	uint64_t length;
	if (!pointer)
		return SIM_OK;
	pthread_mutex_lock(&lock);
	bool mine = take_out((uint64_t)pointer, true, &length);
	pthread_mutex_unlock(&lock);
	if (mine)
		munmap(pointer, length);
	return mine ? SIM_OK : SIM_INVALID_VALUE;
}

int host_register(void *pointer, uint64_t size)
{
	if (!pointer || !size)
		return SIM_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	bool taken = overlaps((uint64_t)pointer, size);
	bool added = !taken && add((uint64_t)pointer, size, false);
	pthread_mutex_unlock(&lock);
	return added ? SIM_OK : taken ? 712 /* already registered */ : SIM_OUT_OF_MEMORY;
}

int host_unregister(void *pointer)
{
	uint64_t length;
	pthread_mutex_lock(&lock);
	bool mine = take_out((uint64_t)pointer, false, &length);
	pthread_mutex_unlock(&lock);
	return mine ? SIM_OK : 713 /* not registered */;
}

bool host_find(const void *pointer)
{
	pthread_mutex_lock(&lock);
	long i = before((uint64_t)pointer);
	bool found = i >= 0 && (uint64_t)pointer < ranges[i].start + ranges[i].length;
	pthread_mutex_unlock(&lock);
	return found;
}
