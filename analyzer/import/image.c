#include "import/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void image_begin(struct image *i)
{
	*i = (struct image){ 0 };
	memcpy(i->header.magic, MT_MAGIC, sizeof(i->header.magic));
	i->header.version = MT_VERSION;
	i->header.byte_order = MT_BYTE_ORDER;
	i->header.header_bytes = MT_HEADER_BYTES;
	i->header.record_bytes = sizeof(struct mt_record);
	i->header.state = MT_STATE_ENDED;
	i->header.flags = MT_FLAG_STACKS;
	i->header.exit_status = -1;
	i->header.rank = i->header.local_rank = -1;
}

/* An entry whose payload is two texts, one after the other. */
static uint32_t add_entry(struct image *i, uint32_t kind, struct str a, struct str b)
{
	static const char zeros[8];
	struct mt_entry entry = { .kind = kind, .bytes = (uint32_t)(a.length + b.length) };

	if (kind != MT_ENTRY_META)
		entry.id = ++i->ids[kind];
	buf_add(&i->table, &entry, sizeof(entry));
	buf_add(&i->table, a.at, a.length);
	buf_add(&i->table, b.at, b.length);
	buf_add(&i->table, zeros, (8 - i->table.length % 8) % 8);
	return entry.id;
}

static const struct str nothing = { "", 0 };

uint32_t image_string(struct image *i, struct str text)
{
	return add_entry(i, MT_ENTRY_STRING, text, nothing);
}

uint32_t image_frame(struct image *i, const struct mt_frame *frame)
{
	return add_entry(i, MT_ENTRY_FRAME, (struct str){ (const char *)frame, sizeof(*frame) },
			 nothing);
}

uint32_t image_module(struct image *i, const char *path)
{
	return add_entry(i, MT_ENTRY_MODULE, (struct str){ path, strlen(path) }, nothing);
}

uint32_t image_stack(struct image *i, const uint32_t *words, size_t count)
{
	return add_entry(i, MT_ENTRY_STACK,
			 (struct str){ (const char *)words, count * sizeof(*words) }, nothing);
}

uint16_t image_thread(struct image *i, const char *name)
{
	uint32_t tid = i->ids[MT_ENTRY_THREAD] + 1;

	return (uint16_t)add_entry(i, MT_ENTRY_THREAD,
				   (struct str){ (const char *)&tid, sizeof(tid) },
				   (struct str){ name, strlen(name) });
}

void image_meta(struct image *i, const char *key, struct str value)
{
	add_entry(i, MT_ENTRY_META, (struct str){ key, strlen(key) + 1 }, value);
}

static void put_of_device(struct image *i, const char *prefix, unsigned device, const char *value)
{
	char key[32];

	snprintf(key, sizeof(key), "%s%u", prefix, device);
	image_meta(i, key, (struct str){ value, strlen(value) });
}

void image_peak_of(struct image *i, unsigned device, const char *scope)
{
	put_of_device(i, MT_META_PEAK_OF, device, scope);
}

void image_before(struct image *i, unsigned device, size_t count)
{
	char text[24];

	snprintf(text, sizeof(text), "%zu", count);
	put_of_device(i, MT_META_BEFORE, device, text);
}

void image_record(struct image *i, const struct mt_record *r)
{
	i->records = grow(i->records, i->count, &i->room, sizeof(*i->records));
	i->records[i->count++] = *r;
}

/* May `b` stand behind `a`? Other tools write microseconds: a step begins before the events of its
 * own time, except at time 0, the time of the blocks that are older than the history. */
static int in_order(const struct mt_record *a, const struct mt_record *b)
{
	if (a->time_ns == b->time_ns)
		return !a->time_ns || a->kind == MT_STEP || b->kind != MT_STEP;
	return a->time_ns < b->time_ns;
}

/* Merges the sorted runs [from, middle) and [middle, to) of `a` into `b`. */
static void merge(const struct mt_record *a, struct mt_record *b, size_t from, size_t middle,
		  size_t to)
{
	size_t left = from, right = middle;

	if (middle == to || in_order(&a[middle - 1], &a[middle])) {
		memcpy(b + from, a + from, (to - from) * sizeof(*a));
		return;
	}
	for (size_t k = from; k < to; k++) {
		int is_left = left < middle && (right >= to || in_order(&a[left], &a[right]));

		b[k] = is_left ? a[left++] : a[right++];
	}
}

/* Other records of the same time stay in their order. */
static void sort_by_time(struct image *i)
{
	struct mt_record *other, *sorted;
	size_t sorted_count = 1;

	while (sorted_count < i->count &&
	       in_order(&i->records[sorted_count - 1], &i->records[sorted_count]))
		sorted_count++;
	if (sorted_count >= i->count) /* most files */
		return;
	other = xcalloc(i->count, sizeof(*other));
	for (size_t run = 1; run < i->count; run *= 2) {
		for (size_t from = 0; from < i->count; from += 2 * run) {
			size_t middle = from + run < i->count ? from + run : i->count;
			size_t to = middle + run < i->count ? middle + run : i->count;

			merge(i->records, other, from, middle, to);
		}
		sorted = other;
		other = i->records;
		i->records = sorted;
	}
	i->room = i->count;
	free(other);
}

unsigned char *image_finish(struct image *i, uint64_t *size)
{
	uint64_t records = MT_HEADER_BYTES + i->table.length;
	size_t length = i->count * sizeof(*i->records);
	unsigned char *file;

	sort_by_time(i);
	*size = records + length;
	file = xcalloc(1, *size);
	i->header.tables = i->header.segments = 1;
	i->header.table[0] = (struct mt_table){ .offset = MT_HEADER_BYTES,
						.capacity = i->table.length,
						.used = i->table.length };
	i->header.segment[0] =
		(struct mt_segment){ .offset = records, .capacity = i->count, .used = i->count };
	memcpy(file, &i->header, sizeof(i->header));
	memcpy(file + MT_HEADER_BYTES, i->table.text, i->table.length);
	if (length)
		memcpy(file + records, i->records, length);
	image_release(i);
	return file;
}

void image_release(struct image *i)
{
	buf_release(&i->table);
	free(i->records);
	*i = (struct image){ 0 };
}
