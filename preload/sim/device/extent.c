/* Free ranges in one sorted array. A training job has hundreds of them, not millions: a binary
 * search and a memmove are faster than a tree would be, and lowest-first placement is reproducible
 * from run to run. */
#include "device/extent.h"

#include "device/common.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first range that begins after `start`. */
static size_t after(const struct extents *free, uint64_t start)
{
	size_t low = 0, high = free->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (free->list[middle].start > start)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool insert(struct extents *free, size_t at, uint64_t start, uint64_t length)
{
	struct extent *list =
		room_for_one(free->list, free->count, &free->capacity, sizeof *free->list);
	if (!list)
		return false;
	free->list = list;
	memmove(&free->list[at + 1], &free->list[at], (free->count - at) * sizeof *free->list);
	free->list[at] = (struct extent){ start, length };
	free->count++;
	return true;
}

static void drop(struct extents *free, size_t at)
{
	free->count--;
	memmove(&free->list[at], &free->list[at + 1], (free->count - at) * sizeof *free->list);
}

/* Cuts [start, start + length) out of the range at index `at`, which holds it. */
static bool cut(struct extents *free, size_t at, uint64_t start, uint64_t length)
{
	struct extent whole = free->list[at];
	uint64_t before = start - whole.start, rest = whole.length - before - length;
	if (before && rest) {
		if (!insert(free, at + 1, start + length, rest))
			return false;
		free->list[at].length = before;
	} else if (before) {
		free->list[at].length = before;
	} else if (rest) {
		free->list[at] = (struct extent){ start + length, rest };
	} else {
		drop(free, at);
	}
	return true;
}

bool extents_take(struct extents *free, uint64_t length, uint64_t alignment, uint64_t *start)
{
	for (size_t i = 0; i < free->count; i++) {
		uint64_t aligned = round_up(free->list[i].start, alignment);
		uint64_t skipped = aligned - free->list[i].start;
		if (skipped + length > free->list[i].length)
			continue;
		*start = aligned;
		return cut(free, i, aligned, length);
	}
	return false;
}

bool extents_take_at(struct extents *free, uint64_t start, uint64_t length)
{
	size_t i = after(free, start);
	if (!i--)
		return false;
	if (start + length > free->list[i].start + free->list[i].length)
		return false;
	return cut(free, i, start, length);
}

bool extents_give(struct extents *free, uint64_t start, uint64_t length)
{
	size_t i = after(free, start);
	bool left = i && free->list[i - 1].start + free->list[i - 1].length == start &&
		    !(free->boundary && start % free->boundary == 0);
	bool right = i < free->count && start + length == free->list[i].start &&
		     !(free->boundary && (start + length) % free->boundary == 0);
	if (left && right) {
		free->list[i - 1].length += length + free->list[i].length;
		drop(free, i);
	} else if (left) {
		free->list[i - 1].length += length;
	} else if (right) {
		free->list[i].start = start;
		free->list[i].length += length;
	} else {
		return insert(free, i, start, length);
	}
	return true;
}
