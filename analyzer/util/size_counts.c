#include "util/size_counts.h"

#include "util/hash.h"
#include "util/order.h"

#include <stdlib.h>

#define MAX_SIZES 65536 /* that are told apart */

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

void size_counts_release(struct size_counts *s)
{
	HASH_RELEASE(s->entries);
	free(s->list);
	*s = (struct size_counts){ 0 };
}
