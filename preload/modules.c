#define _GNU_SOURCE
#include "modules.h"

#include <string.h>

#include "lock.h"
#include "resolve.h"
#include "tables.h"

#define SLOTS 1024 /* return addresses; call sites that allocate are few */
#define MODULES 256

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
	unsigned modules;
} m;

void modules_forget(void)
{
	memset(&m, 0, sizeof(m));
}

void modules_forget_unloaded(void)
{
	int held = lock_acquire(&m.lock, LOCK_MS(1000));

	for (unsigned i = 0; i < SLOTS; i++)
		atomic_store_explicit(&m.slot[i].address, 0, memory_order_relaxed);
	m.modules = 0;
	if (held)
		lock_release(&m.lock);
}

/* The lock is held. */
static struct module look_up(const void *address)
{
	static char path[4096];
	const void *start = resolve_module(address, path, sizeof(path));
	struct module found = { 0 };
	const char *file;

	for (unsigned i = 0; i < m.modules; i++)
		if (m.known[i].start == start)
			return m.known[i].module;
	if (!start)
		return found;
	file = strrchr(path, '/');
	file = file ? file + 1 : path;
	found.is_allocator = strcmp(file, "libc10_cuda.so") == 0;
	/* The simulated device asks for memory as NCCL only. */
	found.is_nccl = strncmp(file, "libnccl", strlen("libnccl")) == 0 ||
			strncmp(file, "libcudasim", strlen("libcudasim")) == 0;
	found.id = tables_module(*path ? path : "main program");
	if (m.modules < MODULES) {
		m.known[m.modules].start = start;
		m.known[m.modules++].module = found;
	}
	return found;
}

struct module module_of(const void *address)
{
	uintptr_t a = (uintptr_t)address;
	unsigned i = (unsigned)((a * 0x9e3779b97f4a7c15u) >> 54) % SLOTS;
	struct module found = { 0 };

	for (unsigned probe = 0; probe < 8; probe++, i = (i + 1) % SLOTS) {
		uintptr_t at = atomic_load_explicit(&m.slot[i].address, memory_order_acquire);
		if (at == a)
			return m.slot[i].module;
		if (!at)
			break;
	}
	if (!lock_acquire(&m.lock, LOCK_WAIT))
		return found;
	found = look_up(address);
	if (!atomic_load(&m.slot[i].address)) { /* entries are only ever added */
		m.slot[i].module = found;
		atomic_store_explicit(&m.slot[i].address, a, memory_order_release);
	}
	lock_release(&m.lock);
	return found;
}
