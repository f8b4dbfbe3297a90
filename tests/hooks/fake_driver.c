/*
 * A driver that answers every look-up and does nothing: enough for the real CUDA libraries to
 * resolve all their names, after which they find out and stop (error 103). Built as libcuda.so.1
 * with two files made from CUDA's headers: a stub for every other name of cuda.h, and
 * interfaces.def, which says what a name is in which version. What is handed out can be told apart.
 * FAKE_DRIVER_LOG: a file that gets one line a look-up:
 *
 *   driver NAME VERSION FLAGS ADDRESS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { STUBS = 4096, SPACING = 16, NOT_FOUND = 500 };

/* STUBS functions that return 0, SPACING bytes apart */
extern const char fake_stubs[];
#if defined(__x86_64__)
#define RETURN_0 "xorl %eax, %eax\nret\n"
#else
#define RETURN_0 "mov w0, #0\nret\n"
#endif
__asm__(".text\n.balign 16\n.local fake_stubs\nfake_stubs:\n.rept 4096\n" RETURN_0
	".balign 16\n.endr\n");

static struct look_up {
	char name[64];
	int version;
	uint64_t flags;
} asked[STUBS];
static unsigned count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			       int *status);

/* The answers that the libraries read. */
EXPORT int cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
	*version = 13030;
	return 0;
}

EXPORT int cuDeviceGetCount(int *devices)
{
	*devices = 1;
	return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)attribute, (void)device;
	*value = 1;
	return 0;
}

EXPORT int cuDeviceGetName(char *name, int bytes, int device)
{
	(void)device;
	if (bytes > 0)
		snprintf(name, (size_t)bytes, "fake");
	return 0;
}

EXPORT int cuCtxGetCurrent(void **context)
{
	*context = NULL;
	return 0;
}

EXPORT int cuGetExportTable(const void **table, const void *id)
{
	static const void
		*stubs[64]; /* its size, then functions; they answer the integrity check wrongly */

	(void)id;
	stubs[0] = (const void *)sizeof(stubs);
	for (unsigned i = 1; i < sizeof(stubs) / sizeof(*stubs); i++)
		stubs[i] = fake_stubs + (STUBS - 1) * SPACING;
	*table = stubs;
	return 0;
}

static void note(const char *name, int version, uint64_t flags, const void *address)
{
	const char *path = getenv("FAKE_DRIVER_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (!f)
		return;
	fprintf(f, "driver %s %d %llu %p\n", *name ? name : "-", version, (unsigned long long)flags,
		address);
	fclose(f);
}

/* A name that the headers do not know: each (name, version, flags) has a stub of its own. */
static const void *stub_of(const char *name, int version, uint64_t flags)
{
	unsigned i = 0;

	while (i < count && (asked[i].version != version || asked[i].flags != flags ||
			     strcmp(asked[i].name, name) != 0))
		i++;
	if (i == STUBS || strlen(name) >= sizeof(asked->name))
		return NULL;
	if (i == count) {
		strcpy(asked[i].name, name);
		asked[i].version = version;
		asked[i].flags = flags;
		count++;
	}
	return fake_stubs + (size_t)i * SPACING;
}

/* The interfaces that cudaTypedefs.h lists. */
#define INTERFACE(name, version, twin, symbol) extern int symbol();
#include "interfaces.def"
#undef INTERFACE

static const struct interface {
	const char *name;
	int version, twin;
	const void *function;
} interfaces[] = {
#define INTERFACE(name, version, twin, symbol) { #name, version, twin, (const void *)symbol },
#include "interfaces.def"
#undef INTERFACE
};

/* Of NAME's interfaces the latest that the caller knows; the twin if the caller asks for it and
 * there is one. */
static const void *choose(const char *name, int version, uint64_t flags, int *known)
{
	const struct interface *best = NULL;

	for (unsigned i = 0; i < sizeof(interfaces) / sizeof(*interfaces); i++) {
		const struct interface *f = &interfaces[i];
		if (strcmp(f->name, name) != 0)
			continue;
		*known = 1;
		if (f->version > version || (f->twin && !(flags & 2)))
			continue;
		if (!best || f->twin > best->twin ||
		    (f->twin == best->twin && f->version > best->version))
			best = f;
	}
	return best ? best->function : NULL;
}

static int look_up(const char *name, void **function, int version, uint64_t flags)
{
	const void *found;
	int known = !*name || strncmp(name, "cuNo", 4) == 0;

	pthread_mutex_lock(&lock);
	found = choose(name, version, flags, &known);
	if (!known)
		found = stub_of(name, version, flags);
	note(name, version, flags, found);
	pthread_mutex_unlock(&lock);
	if (function)
		*function = (void *)found;
	return found ? 0 : NOT_FOUND;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	return look_up(name, function, version, flags);
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			       int *status)
{
	int result = look_up(name, function, version, flags);

	if (status)
		*status = result ? 1 : 0;
	return result;
}
