/*
 * Preloaded before libmemtrace.so: logs the answers that the program's libraries get. Each
 * answer to dlsym for a name of the driver, and each answer of the cuGetProcAddress that it gives
 * out, is a line in SPY_LOG:
 *
 *   dlsym NAME ADDRESS
 *   got NAME VERSION FLAGS RESULT STATUS ADDRESS
 *
 * Everything is passed on unchanged but cuGetProcAddress itself, which is replaced by one that asks
 * the one received.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int look_up(const char *, void **, int, uint64_t);
typedef int look_up_v2(const char *, void **, int, uint64_t, int *);

static void *(*next)(void *, const char *);
static look_up *asked;
static look_up_v2 *asked_v2;

EXPORT void *dlsym(void *restrict handle, const char *restrict name);

static FILE *log_file(void)
{
	const char *path = getenv("SPY_LOG");

	return path ? fopen(path, "a") : NULL;
}

static void *spied(const char *name, int version, void *address);

static void got(const char *name, int version, uint64_t flags, int result, int status,
		void **address)
{
	FILE *f = log_file();

	if (f) {
		fprintf(f, "got %s %d %llu %d %d %p\n", *name ? name : "-", version,
			(unsigned long long)flags, result, status, address ? *address : NULL);
		fclose(f);
	}
	if (result == 0 && address)
		*address = spied(name, version, *address);
}

static int spy(const char *name, void **address, int version, uint64_t flags)
{
	int result = asked(name, address, version, flags);

	got(name, version, flags, result, -1, address);
	return result;
}

static int spy_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
	int result = asked_v2(name, address, version, flags, status);

	got(name, version, flags, result, status ? *status : -1, address);
	return result;
}

/* What to hand on instead of `address`. */
static void *spied(const char *name, int version, void *address)
{
	if (strcmp(name, "cuGetProcAddress_v2") == 0 ||
	    (strcmp(name, "cuGetProcAddress") == 0 && version >= 12000)) {
		asked_v2 = (look_up_v2 *)address;
		return (void *)spy_v2;
	}
	if (strcmp(name, "cuGetProcAddress") == 0) {
		asked = (look_up *)address;
		return (void *)spy;
	}
	return address;
}

EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
	void *address;
	FILE *f;

	if (!next) /* libmemtrace.so's, or without it the C library's */
		next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!next)
		next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	address = next(handle, name);
	if (strncmp(name, "cu", 2) != 0 || !isupper((unsigned char)name[2]) || !address)
		return address;
	f = log_file();
	if (f) {
		fprintf(f, "dlsym %s %p\n", name, address);
		fclose(f);
	}
	return spied(name, 0, address);
}
