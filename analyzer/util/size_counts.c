#include "util/size_counts.h"

#include "util/hash.h"
#include "util/order.h"

#include <stdlib.h>

#define MAX_SIZES 65536 /* that are told apart */
#define MAX_TRIES 64    /* sizes that are compared with one */

struct size_entry {
	struct size_count of;
	UT_hash_handle hh;
};

void size_counts_add(struct size_counts *s, bytes size)
{
	struct size_entry *entry;

	HASH_FIND(hh, s->entries, &size, sizeof(size), entry);
	if (entry) {
		entry->of.count++;
		return;
	}
	if (HASH_COUNT(s->entries) >= MAX_SIZES)
		return;
	entry = xcalloc(1, sizeof(*entry));
	entry->of = (struct size_count){ size, 1 };
	HASH_ADD(hh, s->entries, of.size, sizeof(size), entry);
}

void size_counts_sort(struct size_counts *s)
{
	struct size_entry *entry, *next;

	s->list = xcalloc(HASH_COUNT(s->entries) + 1, sizeof(*s->list));
	HASH_ITER(hh, s->entries, entry, next)
	s->list[s->count++] = entry->of;
	HASH_RELEASE(s->entries);
	qsort(s->list, s->count, sizeof(*s->list), by_bytes_rising);
}

struct size_count *size_counts_at(const struct size_counts *s, bytes size)
{
	const struct size_count key = { .size = size };

	return s->count ? bsearch(&key, s->list, s->count, sizeof(key), by_bytes_rising) : NULL;
}

uint64_t size_counts_find(const struct size_counts *s, bytes size)
{
	const struct size_count *found = size_counts_at(s, size);

	return found ? found->count : 0;
}

/* The first entry of at least this size. */
static size_t first_at_least(const struct size_counts *s, bytes size)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->list[middle].size < size)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t size_counts_count_near(const struct size_counts *s, bytes size)
{
	bytes spare = size > MAX_SPARE ? smaller_of(MAX_SPARE, size / 4) : 0;
	uint64_t count = 0;

	for (size_t i = first_at_least(s, size - spare);
	     i < s->count && s->list[i].size <= size + spare; i++)
		count += s->list[i].count;
	return count;
}

struct size_count *size_counts_near(const struct size_counts *s, bytes size)
{
	bytes spare = smaller_of(MAX_SPARE, size / 4);
	size_t low = first_at_least(s, size - spare);

	for (size_t tries = 0; tries < MAX_TRIES && low < s->count; tries++, low++)
		if (s->list[low].size <= size + spare && s->list[low].count)
			return &s->list[low];
	return NULL;
}

void size_counts_release(struct size_counts *s)
{
	HASH_RELEASE(s->entries);
	free(s->list);
	*s = (struct size_counts){ 0 };
}
