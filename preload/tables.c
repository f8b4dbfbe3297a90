#define _GNU_SOURCE
#include "tables.h"

#include <string.h>
#include <sys/mman.h>

#include "lock.h"
#include "recorder.h"

#define REGION_BYTES (256u << 10)
#define WAIT LOCK_WAIT

/* hash -> id, open addressing; entries are only ever added. `hash` is written last. */
struct index {
	struct {
		uint64_t hash;
		uint64_t id;
	} * slot;
	size_t mask;
	uint32_t count;
};

static struct {
	struct lock lock;
	struct mt_header *header;
	uint8_t *region; /* the table region being filled */
	struct mt_table *entry;
	struct index strings, frames, places;
	uint32_t modules, threads;
} t;

static int index_open(struct index *x, size_t slots)
{
	if (x->slot)
		munmap(x->slot, (x->mask + 1) * sizeof(*x->slot));
	x->slot = mmap(NULL, slots * sizeof(*x->slot), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	x->mask = slots - 1;
	x->count = 0;
	if (x->slot != MAP_FAILED)
		return 0;
	x->slot = NULL;
	return -1;
}

static uint32_t index_find(const struct index *x, uint64_t hash)
{
	for (size_t i = hash & x->mask;; i = (i + 1) & x->mask) {
		uint64_t h = __atomic_load_n(&x->slot[i].hash, __ATOMIC_ACQUIRE);
		if (h == hash)
			return (uint32_t)x->slot[i].id;
		if (!h)
			return 0;
	}
}

/* The id for a new thing, 0 when the index is full. */
static uint32_t index_add(struct index *x, uint64_t hash)
{
	size_t i = hash & x->mask;

	if (x->count >= x->mask - x->mask / 4)
		return 0;
	while (x->slot[i].hash)
		i = (i + 1) & x->mask;
	x->slot[i].id = ++x->count;
	__atomic_store_n(&x->slot[i].hash, hash, __ATOMIC_RELEASE);
	return x->count;
}

static uint64_t hash_bytes(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint64_t h = 0xcbf29ce484222325u ^ n;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 0x100000001b3u; /* NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult): all bytes are set */
	h ^= h >> 29;
	return h ? h : 1;
}

static void new_region(void *region, uint64_t offset, size_t bytes)
{
	struct mt_header *h = t.header;

	t.region = region;
	t.entry = &h->table[h->tables];
	*t.entry = (struct mt_table){ .offset = offset, .capacity = bytes };
	__atomic_store_n(&h->tables, h->tables + 1, __ATOMIC_RELEASE);
}

int tables_open(struct mt_header *header, void *first, uint64_t offset, size_t bytes)
{
	t.header = header;
	t.modules = t.threads = 0;
	atomic_store(&t.lock.held, 0);
	if (index_open(&t.strings, 1u << 16) || index_open(&t.frames, 1u << 16) ||
	    index_open(&t.places, 1u << 17))
		return -1;
	new_region(first, offset, bytes);
	return 0;
}

/* Room for an entry with BYTES of payload, in a new region if need be. The lock is held. */
static int make_room(size_t bytes)
{
	size_t need = sizeof(struct mt_entry) + ((bytes + 7) & ~(size_t)7);
	const struct mt_header *h = t.header;
	uint64_t offset;
	void *region;

	if (t.entry->used + need <= t.entry->capacity)
		return 0;
	/* A quarter of the budget at most: what makes endless new stacks must not eat the disk. */
	if (need > REGION_BYTES || h->tables >= MT_MAX_TABLES ||
	    h->tables * REGION_BYTES > h->budget / 4)
		return -1;
	region = recorder_grow(REGION_BYTES, &offset);
	if (!region)
		return -1;
	new_region(region, offset, REGION_BYTES);
	return 0;
}

struct part {
	const void *p;
	size_t n;
};
#define PARTS(...)                            \
	(const struct part[]){ __VA_ARGS__ }, \
		sizeof((const struct part[]){ __VA_ARGS__ }) / sizeof(struct part)

/* Appends an entry, its payload given in parts. The lock is held. */
static int append(uint32_t kind, uint32_t id, const struct part *part, size_t parts)
{
	size_t bytes = 0;
	uint8_t *p;

	for (size_t i = 0; i < parts; i++)
		bytes += part[i].n;
	if (make_room(bytes) != 0)
		return -1;
	p = t.region + t.entry->used;
	*(struct mt_entry *)p =
		(struct mt_entry){ .kind = kind, .id = id, .bytes = (uint32_t)bytes };
	p += sizeof(struct mt_entry);
	for (size_t i = 0; i < parts; i++) {
		memcpy(p, part[i].p, part[i].n);
		p += part[i].n;
	}
	__atomic_store_n(&t.entry->used,
			 t.entry->used + sizeof(struct mt_entry) + ((bytes + 7) & ~(size_t)7),
			 __ATOMIC_RELEASE);
	return 0;
}

static int enter(void)
{
	if (lock_acquire(&t.lock, WAIT))
		return 1;
	recorder_lose_place();
	return 0;
}

/* Looks HASH up again under the lock, and gives it the next id and an entry when it is new. */
static uint32_t add(struct index *x, uint64_t hash, uint32_t kind, const struct part *part,
		    size_t parts)
{
	uint32_t id = index_find(x, hash);

	if (id)
		return id;
	if (x->count < x->mask - x->mask / 4 && append(kind, x->count + 1, part, parts) == 0)
		return index_add(x, hash);
	recorder_lose_place();
	return 0;
}

uint32_t tables_string(const char *s, size_t n)
{
	uint64_t hash = hash_bytes(s, n);
	uint32_t id = index_find(&t.strings, hash);

	if (id || !enter())
		return id;
	id = add(&t.strings, hash, MT_ENTRY_STRING, PARTS({ s, n }));
	lock_release(&t.lock);
	return id;
}

uint32_t tables_frame(uint32_t function, uint32_t file, uint32_t line)
{
	struct mt_frame f = { .function = function, .file = file, .line = line };
	uint64_t hash = hash_bytes(&f, sizeof(f));
	uint32_t id = index_find(&t.frames, hash);

	if (id || !enter())
		return id;
	id = add(&t.frames, hash, MT_ENTRY_FRAME, PARTS({ &f, sizeof(f) }));
	lock_release(&t.lock);
	return id;
}

uint32_t tables_find_place(uint64_t hash)
{
	return index_find(&t.places, hash);
}

uint32_t tables_add_place(uint64_t hash, uint32_t module, const uint32_t *frames, uint32_t count)
{
	uint32_t id;

	if (!enter())
		return MT_NO_PLACE;
	id = add(&t.places, hash, MT_ENTRY_PLACE,
		 PARTS({ &module, sizeof(module) }, { frames, count * sizeof(*frames) }));
	lock_release(&t.lock);
	return id;
}

uint32_t tables_module(const char *path)
{
	uint32_t id = 0;

	if (!enter())
		return 0;
	if (append(MT_ENTRY_MODULE, t.modules + 1, PARTS({ path, strlen(path) })) == 0)
		id = ++t.modules;
	lock_release(&t.lock);
	return id;
}

uint16_t tables_thread(uint32_t tid, const char *name)
{
	uint16_t id = MT_NO_THREAD;

	if (!enter())
		return id;
	if (t.threads + 1 < MT_NO_THREAD &&
	    append(MT_ENTRY_THREAD, t.threads + 1,
		   PARTS({ &tid, sizeof(tid) }, { name, strlen(name) })) == 0)
		id = (uint16_t)++t.threads;
	lock_release(&t.lock);
	return id;
}

/* KEY is a MT_META_ key, NAME what follows it ("" for none). */
void tables_meta(const char *key, const char *name, const char *value, size_t n)
{
	char whole[256];
	size_t k = strlen(key), m = strlen(name);

	if (k + m + 1 > sizeof(whole) || !enter())
		return;
	memcpy(whole, key, k);
	memcpy(whole + k, name, m);
	whole[k + m] = 0;
	(void)append(MT_ENTRY_META, 0, PARTS({ whole, k + m + 1 }, { value, n }));
	lock_release(&t.lock);
}

void tables_prepare(void)
{
	if (t.entry->used * 4 < t.entry->capacity * 3 || !enter())
		return;
	/* Three quarters full: move on now, on the helper thread, and leave the rest unused. */
	if (t.entry->used * 4 >= t.entry->capacity * 3)
		(void)make_room(t.entry->capacity - t.entry->used);
	lock_release(&t.lock);
}
