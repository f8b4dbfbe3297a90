#define _GNU_SOURCE
#include "memory/modules.h"

#include <string.h>

#include "base/lock.h"
#include "python/pystack.h"
#include "symbols/resolve.h"
#include "record/tables.h"

#define SLOTS 1024 /* return addresses; few call sites allocate */
#define MODULES 256
#define MAIN_PROGRAM "main program"

static struct {
	struct lock lock;
	struct {
		_Atomic uintptr_t address;
		struct module module;
	} slot[SLOTS];
	struct {
		const void *start;
		struct module module;
	} known[MODULES];
	unsigned known_count;
} modules;

void modules_forget(void)
{
	memset(&modules, 0, sizeof(modules));
}

void modules_forget_unloaded(void)
{
	int held = lock_acquire(&modules.lock, LOCK_MS(1000));

	for (unsigned i = 0; i < SLOTS; i++)
		atomic_store_explicit(&modules.slot[i].address, 0, memory_order_relaxed);
	modules.known_count = 0;
	if (held)
		lock_release(&modules.lock);
}

/* Is PyTorch's caching allocator in the loaded object that contains `address`?
 * c10::cuda::GetDeviceCount(int *) is a function of the same library; a variable of the library
 * could be a copy in a program that was linked with it. */
static int has_allocator(const void *address, const void *start)
{
	const void *found = resolve_beside(address, "_ZN3c104cuda14GetDeviceCountEPi");
	char unused[1];

	return found && resolve_module(found, unused, sizeof(unused)) == start;
}

/* The lock is held. */
static struct module find_module(const void *address)
{
	static char path[4096];
	const void *start = resolve_module(address, path, sizeof(path));
	struct module found = { 0 };
	const char *file;

	for (unsigned i = 0; i < modules.known_count; i++)
		if (modules.known[i].start == start)
			return modules.known[i].module;
	if (!start)
		return found;
	file = strrchr(path, '/');
	file = file ? file + 1 : path;
	found.is_allocator = strcmp(file, "libc10_cuda.so") == 0;
	if (!found.is_allocator && has_allocator(address, start)) {
		found.is_allocator = found.is_renamed = 1;
		tables_meta(MT_META_ALLOCATOR, "", *path ? path : MAIN_PROGRAM,
			    strlen(*path ? path : MAIN_PROGRAM));
	}
	/* The simulated device asks for memory only on behalf of NCCL. */
	found.is_nccl = strncmp(file, "libnccl", strlen("libnccl")) == 0 ||
			strncmp(file, "libcudasim", strlen("libcudasim")) == 0;
	found.id = tables_module(*path ? path : MAIN_PROGRAM);
	if (modules.known_count < MODULES) {
		modules.known[modules.known_count].start = start;
		modules.known[modules.known_count++].module = found;
	}
	return found;
}

static unsigned first_slot(const void *address)
{
	return (unsigned)(((uintptr_t)address * 0x9e3779b97f4a7c15u) >> 54) % SLOTS;
}

void modules_prefetch(const void *address)
{
	__builtin_prefetch(&modules.slot[first_slot(address)]);
}

struct module module_of(const void *address)
{
	uintptr_t a = (uintptr_t)address;
	unsigned i = first_slot(address);
	struct module found = { 0 };

	for (unsigned probe = 0; probe < 8; probe++, i = (i + 1) % SLOTS) {
		uintptr_t at = atomic_load_explicit(&modules.slot[i].address, memory_order_acquire);
		if (at == a)
			return modules.slot[i].module;
		if (!at)
			break;
	}
	if (!lock_acquire(&modules.lock, LOCK_WAIT))
		return found;
	found = find_module(address);
	found.stack = found.stack ? found.stack : pystack_module_stack(found.id);
	if (!atomic_load(&modules.slot[i].address)) { /* entries are only ever added */
		modules.slot[i].module = found;
		atomic_store_explicit(&modules.slot[i].address, a, memory_order_release);
	}
	lock_release(&modules.lock);
	return found;
}
