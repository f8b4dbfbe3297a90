/* What the parts of the simulated device share. Public CUDA types stay out of here, so that the
 * accounting can be read (and tested) without the CUDA headers; errors are the numbers that the
 * runtime and the driver have in common. */
#ifndef CUDASIM_SIM_H
#define CUDASIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* Per-thread-default-stream builds ask for these names; a thread's default stream shares the legacy
 * one's timeline, so the twin is the same. */
#define TWIN(function, suffix)                       \
	extern __typeof__(function) function##suffix \
		__attribute__((alias(#function), visibility("default")))
#define PTSZ(function) TWIN(function, _ptsz)
#define PTDS(function) TWIN(function, _ptds)

enum {
	SIM_OK = 0,
	SIM_INVALID_VALUE = 1,
	SIM_OUT_OF_MEMORY = 2,
	SIM_NOT_INITIALIZED = 3,
	SIM_NO_DEVICE = 100,
	SIM_INVALID_DEVICE = 101,
	SIM_INVALID_HANDLE = 400,
	SIM_NOT_FOUND = 500,
	SIM_NOT_READY = 600,
	SIM_NOT_SUPPORTED = 801,
};

enum { MAX_DEVICES = 8 };
#define GRANULE MIB(2) /* what the driver hands out physical memory in */

static inline uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* `array`, which holds `count` elements of `size` bytes, with room for one more: moved if need be. NULL:
 * no memory, and it is as it was. */
static inline void *room_for_one(void *array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return array;
	size_t more = *capacity ? *capacity * 2 : 64;
	void *grown = realloc(array, more * size);
	if (grown)
		*capacity = more;
	return grown;
}

/* More than there is of anything, where it overflows. */
static inline uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t both;
	return __builtin_mul_overflow(a, b, &both) ? UINT64_MAX : both;
}

/* ---- settings.c, gpu.c (also linked into the NVML object) */

struct gpu {
	const char *name;
	int nominal_gib;
	uint64_t memory;
	int major, minor, multiprocessors;
	const char *device_name;
	uint64_t l2_cache, shared_optin, context;
};

struct settings {
#define SETTING(type, field, variable, fallback, low, high, help) SETTING_##type(field)
#define SETTING_SIZE(field) uint64_t field;
#define SETTING_COUNT(field) uint64_t field;
#define SETTING_CHOICE(field) uint64_t field;
#define SETTING_NAME(field) char field[64];
#include "device/settings.def"
#undef SETTING
	const struct gpu *card;
	uint64_t total;   /* bytes a device reports: CUDASIM_MEMORY, or the card's own */
	uint64_t visible; /* devices that CUDA_VISIBLE_DEVICES leaves of `gpus`; NVML shows all */
	unsigned char physical[MAX_DEVICES]; /* which of `gpus` each of them is */
};
extern struct settings settings;

enum { STREAMS_LATE, STREAMS_EARLY }; /* in the order of settings.def */
enum { ROUTING_BALANCED, ROUTING_SKEWED };

bool settings_load(void); /* false: a value was wrong, and has been named on stderr */
void settings_uuid(int device, unsigned char uuid[16]);
const struct gpu *gpu_find(const char *name);
size_t gpu_names(char *out, size_t size);
int gpu_attribute(const struct gpu *gpu, int attribute, int device);
uint64_t gpu_limit(int limit);
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- device.c: one process's devices */

int sim_ready(void); /* SIM_OK once the settings are good; else SIM_NOT_INITIALIZED */
int device_current(void);
int device_select(int device);
int device_use(int device); /* makes the context, and charges it, at the first use */
int device_use_current(void);
bool device_active(int device);
int device_charge(int device, uint64_t bytes);
void device_refund(int device, uint64_t bytes);
void device_memory(int device, uint64_t *available, uint64_t *total);
EXPORT void cudasim_memory(int device, uint64_t *used, uint64_t *total);
int cuda_major(void);   /* of the libcudart that the process loaded */
int cuda_version(void); /* as cudaRuntimeGetVersion tells it */
void *real_symbol(const char *const *libraries, const char *symbol);

/* ---- extent.c: free ranges, lowest address first */

struct extent {
	uint64_t start, length;
};
struct extents {
	struct extent *list;
	size_t count, capacity;
	uint64_t boundary; /* ranges never join across a multiple of this; 0: they always may */
};
bool extents_take(struct extents *free, uint64_t length, uint64_t alignment, uint64_t *start);
bool extents_take_at(struct extents *free, uint64_t start, uint64_t length);
bool extents_give(struct extents *free, uint64_t start, uint64_t length);

/* ---- memory.c: the address space and what is allocated in it */

enum memory_kind { MEMORY_LINEAR, MEMORY_MANAGED, MEMORY_POOL, MEMORY_RESERVED, MEMORY_MODULE };

struct pool;
struct heap {
	struct extents small; /* free 512-byte units of the granules that small blocks share */
	int device;
	bool charged; /* its granules count against the device (a pool counts its own bytes) */
};
struct block {
	uint64_t base, size, charged;
	enum memory_kind kind;
	int device;
	struct pool *pool;
	struct heap *heap; /* NULL: has whole granules of its own */
};

int memory_alloc(uint64_t size, int device, enum memory_kind kind, struct pool *pool,
		 uint64_t *address);
int memory_free(uint64_t address);
int memory_release_reservation(uint64_t address, uint64_t size);
bool memory_find(uint64_t address, struct block *found);
bool memory_is_device(const void *pointer);
void memory_forget(uint64_t address,
		   uint64_t size); /* gives the host pages back; reads as zero after */
void memory_lock(void);
void memory_unlock(void);
void memory_reset(int device); /* cudaDeviceReset: everything but pools goes */

/* ---- pool.c: both called with the memory lock held */

int pool_charge(struct pool *pool, uint64_t bytes);
void pool_refund(struct pool *pool, uint64_t bytes);
struct heap *pool_heap(struct pool *pool);
void pool_synchronized(int device); /* unused bytes above the release threshold go back */

/* ---- vmm.c */

struct mapping;
struct mapping **memory_mapping(
	uint64_t address);        /* the granule's slot; NULL outside the address space */
int vmm_device(uint64_t address); /* device that backs a mapped address; -1: none */

/* ---- copy.c: moves bytes, or leaves them, by size (see there) */

void copy_bytes(void *to, const void *from, size_t bytes);
void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t rows);
void fill_bytes(void *to, int value, size_t bytes);

/* ---- host.c: page-locked host memory */

int host_alloc(uint64_t size, unsigned flags, void **pointer);
int host_free(void *pointer);
int host_register(void *pointer, uint64_t size);
int host_unregister(void *pointer);
bool host_find(const void *pointer);

/* ---- handle.c: values for handles nobody looks behind */

void *handle_new(void);

/* ---- stream.c */

void stream_work(void *stream); /* a kernel, copy or fill was queued */
void stream_copied(void *stream, const void *to, bool blocking);
int device_synchronize(void);

/* ---- calls.c */

enum library {
#define LIBRARY(id, name, unsupported, uninitialized) LIB_##id,
#include "device/libraries.def"
#undef LIBRARY
};
int sim_done(enum library library);
int sim_refuse(enum library library, const char *call);
int runtime_error(int error); /* returns it, and keeps it for cudaGetLastError */

/* ---- entry.c */

void *entry_find(const char *name, int version);

#endif
