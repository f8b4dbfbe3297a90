#define _GNU_SOURCE
#include "record/tables.h"

#include <memtrace/fnv.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "record/helper.h"
#include "record/hash_cache.h"
#include "record/last_event.h"
#include "base/lock.h"
#include "base/mapping.h"
#include "record/regions.h"

#define REGION_BYTES (256u << 10)
#define FOR_OTHERS                                                                              \
	(8u << 10) /* bytes of the last region for modules, threads and meta, after stacks have \
		      filled the rest */
#define HASHES (1u << 18) /* slots of the cache of stacks; a power of 2 */
#define RECENT 128        /* slots for recent stacks; one page */
#define FRAMES (1u << 12) /* slots for frames, by the identity that the interpreter gives */

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
	atomic_int lagging;    /* the lock was not free in time: do not wait for it again */
	atomic_int full;       /* no room for one more string, frame or stack */
	atomic_int closed;     /* also no room for a stack in `hashes` */
	atomic_int wants_room; /* the helper must make a region */
	struct mt_header *header;
	uint8_t *region; /* the table region being filled */
	struct mt_table *entry;
	_Atomic(uint8_t *) spare; /* the next one, made by the helper; NULL: none */
	uint64_t spare_offset;
	struct index strings, frames, stacks; /* `stacks`: by module and frame ids */
	struct hash_cache_slot *hashes;       /* hash of a stack -> stack, open addressing */
	uint32_t hash_count;
	uint32_t modules, threads;
} t;

/* Two caches that keep the latest value of each slot: the same as `hashes`, and frames of the
 * interpreter -> frame ids. */
static struct hash_cache_slot recent[RECENT] __attribute__((aligned(4096)));
static struct hash_cache_slot known_frames[FRAMES];

static int index_open(struct index *x, size_t slots)
{
	if (x->slot)
		munmap(x->slot, (x->mask + 1) * sizeof(*x->slot));
	x->slot = mapping_private(slots * sizeof(*x->slot), MAP_NORESERVE);
	x->mask = slots - 1;
	x->count = 0;
	return x->slot ? 0 : -1;
}

static int hashes_open(void)
{
	if (t.hashes)
		munmap(t.hashes, HASHES * sizeof(*t.hashes));
	t.hash_count = 0;
	t.hashes = mapping_private(HASHES * sizeof(*t.hashes), MAP_NORESERVE);
	return t.hashes ? 0 : -1;
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

static int index_is_full(const struct index *x)
{
	return x->count >= x->mask - x->mask / 4;
}

/* Adds HASH and returns its new id. */
static uint32_t index_add(struct index *x, uint64_t hash)
{
	size_t i = hash & x->mask;

	while (x->slot[i].hash)
		i = (i + 1) & x->mask;
	x->slot[i].id = ++x->count;
	__atomic_store_n(&x->slot[i].hash, hash, __ATOMIC_RELEASE);
	return x->count;
}

static uint64_t hash_bytes(const void *p, size_t n)
{
	uint64_t h = fnv_add(FNV_START ^ n, p, n);

	h ^= h >> 29;
	return h ? h : 1;
}

static uint64_t hash_stack(uint32_t module, const uint32_t *frames, uint32_t count)
{
	/* Mixed before the first frame: numbers of modules and of frames differ in the same bits.
	 */
	uint64_t h = (module + 0x9e3779b97f4a7c15u) * 0xd1342543de82ef95u;

	h ^= h >> 32;
	for (uint32_t i = 0; i < count; i++) {
		h = (h ^ frames[i]) * 0xd1342543de82ef95u;
		h ^= h >> 32;
	}
	h = (h ^ count) * 0xd1342543de82ef95u;
	h ^= h >> 29;
	return h ? h : 1;
}

static void new_region(void *region, uint64_t offset, size_t bytes)
{
	struct mt_header *h = t.header;
	struct mt_table *entry = &h->table[h->tables];

	*entry = (struct mt_table){ .offset = offset, .capacity = bytes };
	t.region = region;
	__atomic_store_n(&t.entry, entry,
			 __ATOMIC_RELEASE); /* the helper reads it without the lock */
	__atomic_store_n(&h->tables, h->tables + 1, __ATOMIC_RELEASE);
}

int tables_open(struct mt_header *header, void *first, uint64_t offset, size_t bytes)
{
	t.header = header;
	t.modules = t.threads = 0;
	atomic_store(&t.lock.held, 0);
	atomic_store(&t.lagging, 0);
	atomic_store(&t.full, 0);
	atomic_store(&t.closed, 0);
	atomic_store(&t.wants_room, 0);
	atomic_store(&t.spare, NULL);
	memset(recent, 0, sizeof(recent));
	memset(known_frames, 0, sizeof(known_frames));
	if (index_open(&t.strings, 1u << 16) || index_open(&t.frames, 1u << 16) ||
	    index_open(&t.stacks, 1u << 17) || hashes_open())
		return -1;
	new_region(first, offset, bytes);
	return 0;
}

/* The tables take a quarter of the budget at most: a job with endless new stacks must not fill the
 * disk. */
static int may_grow(void)
{
	const struct mt_header *h = t.header;
	const uint64_t tables = __atomic_load_n(&h->tables, __ATOMIC_ACQUIRE);

	return tables < MT_MAX_TABLES && tables * REGION_BYTES <= h->budget / 4;
}

/* Makes room for an entry with BYTES of payload, in a new region if needed. The caller holds the
 * lock. Returns 0, ENOSPC if there will be no room any more, EBUSY if there is none now. */
static int make_room(size_t bytes, int for_stacks)
{
	size_t need = sizeof(struct mt_entry) + ((bytes + 7) & ~(size_t)7);
	size_t kept = for_stacks && !may_grow() ? FOR_OTHERS : 0;
	uint64_t offset;
	void *region;

	if (t.entry->used + need + kept <= t.entry->capacity)
		return 0;
	if (need > REGION_BYTES || !may_grow())
		return ENOSPC;
	region = atomic_exchange(&t.spare, NULL);
	offset = t.spare_offset;
	if (!region)
		region = regions_add(REGION_BYTES, &offset);
	if (!region)
		return EBUSY;
	new_region(region, offset, REGION_BYTES);
	return 0;
}

struct piece {
	const void *p;
	size_t n;
};
#define PIECES(...)                            \
	(const struct piece[]){ __VA_ARGS__ }, \
		sizeof((const struct piece[]){ __VA_ARGS__ }) / sizeof(struct piece)

/* Appends an entry with its payload in parts. The caller holds the lock. Returns as make_room(). */
static int append(uint32_t kind, uint32_t id, const struct piece *part, size_t parts)
{
	size_t bytes = 0;
	uint8_t *p;
	int e;

	for (size_t i = 0; i < parts; i++)
		bytes += part[i].n;
	e = make_room(bytes,
		      kind == MT_ENTRY_STRING || kind == MT_ENTRY_FRAME || kind == MT_ENTRY_STACK);
	if (e)
		return e;
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

static void lose_stack(int busy)
{
	__atomic_fetch_add(&t.header->lost_stacks, 1, __ATOMIC_RELAXED);
	if (busy)
		__atomic_fetch_add(&t.header->busy_stacks, 1, __ATOMIC_RELAXED);
}

/* Waits for the lock once; does not wait again while the holder is delayed. */
static int enter(void)
{
	int got = lock_acquire(&t.lock, atomic_load(&t.lagging) ? 0 : LOCK_WAIT);

	atomic_store(&t.lagging, !got);
	if (!got)
		lose_stack(1);
	return got;
}

static int is_half_full(void)
{
	const struct mt_table *entry = __atomic_load_n(&t.entry, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&entry->used, __ATOMIC_RELAXED) * 2 >= entry->capacity &&
	       !atomic_load(&t.spare) && may_grow();
}

static void leave(void)
{
	int wake = is_half_full() && !atomic_exchange(&t.wants_room, 1);

	lock_release(&t.lock);
	if (wake)
		helper_wake();
}

/* Marks the tables as full, in the header only if it has no other reason yet. */
static void fill_up(void)
{
	uint32_t nothing = MT_LOST_NOTHING;

	atomic_store(&t.full, 1);
	__atomic_compare_exchange_n(&t.header->lost_reason, &nothing, MT_LOST_TABLES_FULL, 0,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Looks HASH up again under the lock. A new HASH gets the next id and an entry. */
static uint32_t add(struct index *x, uint64_t hash, uint32_t kind, const struct piece *part,
		    size_t parts)
{
	uint32_t id = index_find(x, hash);
	int e;

	if (id)
		return id;
	e = atomic_load(&t.full) || index_is_full(x) ? ENOSPC
						     : append(kind, x->count + 1, part, parts);
	if (!e)
		return index_add(x, hash);
	if (e == ENOSPC)
		fill_up();
	lose_stack(e == EBUSY);
	return 0;
}

uint32_t tables_string(const char *s, size_t n)
{
	uint64_t hash = hash_bytes(s, n);
	uint32_t id = index_find(&t.strings, hash);

	if (id || !enter())
		return id;
	id = add(&t.strings, hash, MT_ENTRY_STRING, PIECES({ s, n }));
	leave();
	return id;
}

uint32_t tables_frame(uint32_t function, uint32_t file, uint32_t line)
{
	struct mt_frame f = { .function = function, .file = file, .line = line };
	uint64_t hash = hash_bytes(&f, sizeof(f));
	uint32_t id = index_find(&t.frames, hash);

	if (id || !enter())
		return id;
	id = add(&t.frames, hash, MT_ENTRY_FRAME, PIECES({ &f, sizeof(f) }));
	leave();
	return id;
}

uint32_t tables_known_frame(uint64_t key)
{
	uint32_t id;

	return hash_cache_get(&known_frames[key % FRAMES], key, &id) ? id : 0;
}

void tables_learn_frame(uint64_t key, uint32_t frame)
{
	hash_cache_set(&known_frames[key % FRAMES], key, frame);
}

int tables_known_stack(uint64_t hash, uint32_t *stack)
{
	last_event.stack = &recent[hash % RECENT];
	if (hash_cache_get(&recent[hash % RECENT], hash, stack))
		return 1;
	for (size_t i = hash % HASHES;; i = (i + 1) % HASHES) {
		if (hash_cache_get(&t.hashes[i], hash, stack)) {
			hash_cache_set(&recent[hash % RECENT], hash, *stack);
			return 1;
		}
		if (!__atomic_load_n(&t.hashes[i].value, __ATOMIC_RELAXED))
			return 0;
	}
}

/*
 * From now on HASH stands for STACK. The caller holds the lock. New code objects make new hashes
 * for known stacks; when the cache is full, all its hashes are dropped and looked up again. If the
 * tables are full too, the hashes stay.
 */
static void learn(uint64_t hash, uint32_t stack)
{
	size_t i = hash % HASHES;

	if (t.hash_count >= HASHES / 4 * 3) {
		if (atomic_load(&t.full)) {
			atomic_store(&t.closed, 1);
			return;
		}
		memset(t.hashes, 0, HASHES * sizeof(*t.hashes));
		t.hash_count = 0;
	}
	while (t.hashes[i].value)
		i = (i + 1) % HASHES;
	hash_cache_set(&t.hashes[i], hash, stack);
	t.hash_count++;
}

uint32_t tables_stack(uint64_t hash, uint32_t module, const uint32_t *frames, uint32_t count)
{
	uint64_t content = hash_stack(module, frames, count);
	uint32_t id;

	if (!enter())
		return MT_NO_STACK;
	if (!tables_known_stack(hash, &id)) {
		id = add(&t.stacks, content, MT_ENTRY_STACK,
			 PIECES({ &module, sizeof(module) }, { frames, count * sizeof(*frames) }));
		if (id)
			learn(hash, id);
	}
	leave();
	return id;
}

uint32_t tables_unknown_stack(uint64_t hash, uint32_t module)
{
	uint32_t known, id = index_find(&t.stacks, hash_stack(module, NULL, 0));

	if (!atomic_load(&t.full) || atomic_load(&t.closed) || !enter())
		return id;
	if (!tables_known_stack(hash, &known))
		learn(hash, id);
	leave();
	return id;
}

int tables_are_closed(void)
{
	if (!atomic_load_explicit(&t.closed, memory_order_relaxed))
		return 0;
	lose_stack(0);
	return 1;
}

uint32_t tables_module(const char *path)
{
	uint32_t id = 0;

	if (!enter())
		return 0;
	if (append(MT_ENTRY_MODULE, t.modules + 1, PIECES({ path, strlen(path) })) == 0)
		id = ++t.modules;
	leave();
	return id;
}

uint16_t tables_thread(uint32_t tid, const char *name)
{
	uint16_t id = MT_NO_THREAD;

	if (!enter())
		return id;
	if (t.threads + 1 < MT_NO_THREAD &&
	    append(MT_ENTRY_THREAD, t.threads + 1,
		   PIECES({ &tid, sizeof(tid) }, { name, strlen(name) })) == 0)
		id = (uint16_t)++t.threads;
	leave();
	return id;
}

/* KEY is a MT_META_ key, NAME its suffix ("" for none). */
void tables_meta(const char *key, const char *name, const char *value, size_t n)
{
	char whole[256];
	size_t k = strlen(key), m = strlen(name);

	if (k + m + 1 > sizeof(whole) || !enter())
		return;
	memcpy(whole, key, k);
	memcpy(whole + k, name, m);
	whole[k + m] = 0;
	(void)append(MT_ENTRY_META, 0, PIECES({ whole, k + m + 1 }, { value, n }));
	leave();
}

void tables_prepare(void)
{
	uint64_t offset;
	uint8_t *region;

	atomic_store(&t.wants_room, 0);
	if (!is_half_full())
		return;
	region = regions_add(REGION_BYTES, &offset);
	if (!region)
		return;
	/* Each page is written now, so that recording never waits for a first page fault. */
	for (size_t k = 0; k < REGION_BYTES; k += 4096)
		((volatile uint8_t *)region)[k] = 0;
	t.spare_offset = offset;
	atomic_store(&t.spare, region);
}
