/*
 * Finding symbols and modules among the loaded objects, by reading their tables. dlsym() and
 * dladdr() take the loader's lock, which a thread may hold while it waits for a lock of PyTorch
 * that the caller of a hook holds: never use them in a hook. These functions also see libraries
 * that Python loaded with RTLD_LOCAL; RTLD_NEXT does not.
 */
#ifndef PRELOAD_RESOLVE_H
#define PRELOAD_RESOLVE_H

#include <link.h>
#include <stdint.h>

/* Address of SYMBOL in the first object loaded after this one that defines it; an object before
 * this one is a tracer or a shim that calls this library. NULL: none defines it. */
void *resolve(const char *symbol);

/* The same, but first in the object that holds BESIDE: another function of the same copy of a
 * library. */
void *resolve_beside(const void *beside, const char *symbol);

/*
 * Holds the library in which a function lies, so that the host's dlclose() does not unload it: a
 * CUDA runtime that cannot use a driver closes it again. It waits until a loader that is at work is
 * done, so that the library can be called. On the helper alone: a host thread may hold what the
 * loader waits for. NULL: the function is there no more.
 */
void *resolve_hold(const void *function);
/* Gives it back; NULL is nothing. */
void resolve_release(void *held);

/* Address of SYMBOL in a preload before this one (not in the program itself). */
void *resolve_before_us(const char *symbol);

/* The same in any object but this one. */
void *resolve_anywhere(const char *symbol);

/* Address of SYMBOL in the C library itself, whoever else defines it. */
void *resolve_in_libc(const char *symbol);

/* The same in another preload after this one; NULL: none. Like resolve_in_libc(), it is for
 * functions that are called before anything else is ready. */
void *resolve_in_preload(const char *symbol);

/* Returns 1 if ADDRESS is in this object. */
int resolve_is_ours(const void *address);

/* Path of the object that holds ADDRESS, copied to PATH (BYTES long; "" for none), and its start,
 * to distinguish objects. */
const void *resolve_module(const void *address, char *path, unsigned long bytes);

/* The same with only the last part of the path. */
const void *resolve_module_file(const void *address, char *file, unsigned long bytes);

/* The addresses of the object that holds ADDRESS, from `low` to before `high`, which is 0 if none
 * does. */
struct resolve_range {
	uintptr_t low, high;
};
struct resolve_range resolve_range(const void *address);

struct dl_phdr_info;

/* Returns 1 if ADDRESS is in the loaded object O. */
int resolve_holds(const struct dl_phdr_info *o, const void *address);

/* Number of objects loaded, and unloaded, since the program began. */
unsigned long long resolve_loaded(void);
unsigned long long resolve_unloaded(void);

#endif
