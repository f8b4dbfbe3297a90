/*
 * Finding symbols and modules among the loaded objects, by reading their tables. dlsym() and
 * dladdr() take the loader's lock, which a thread may hold while it waits for a lock of PyTorch's
 * that our caller holds: never use them in a hook. This way also sees libraries that Python loaded
 * RTLD_LOCAL, which RTLD_NEXT does not.
 */
#ifndef PRELOAD_RESOLVE_H
#define PRELOAD_RESOLVE_H

#include <link.h>

/* Address of SYMBOL in the first object loaded after this one that defines it: what stands before
 * it is a tracer or a shim that calls us. NULL: nowhere. */
void *resolve(const char *symbol);

/* The same, but first in the object that holds BESIDE: another function of the same copy of a
 * library. */
void *resolve_beside(const void *beside, const char *symbol);

/* Address of SYMBOL in a preload before this one (not in the program itself). */
void *resolve_before_us(const char *symbol);

/* The same before this one too: does anyone else define it? */
void *resolve_anywhere(const char *symbol);

/* Address of SYMBOL in the C library itself, whoever else defines it. */
void *resolve_in_libc(const char *symbol);

/* The same in another preload after this one, NULL where there is none. Like resolve_in_libc(), for
 * what is called before anything else is ready. */
void *resolve_in_preload(const char *symbol);

/* Is ADDRESS in this object? */
int resolve_is_ours(const void *address);

/* Path of the object that holds ADDRESS, copied to PATH (BYTES long; "" for none), and its start,
 * to tell objects apart. */
const void *resolve_module(const void *address, char *path, unsigned long bytes);

/* The same of what follows the path's last slash. */
const void *resolve_module_file(const void *address, char *file, unsigned long bytes);

/* Is ADDRESS in the loaded object O? */
int resolve_holds(const struct dl_phdr_info *o, const void *address);

/* How often an object was loaded, and unloaded. */
unsigned long long resolve_loaded(void);
unsigned long long resolve_unloaded(void);

#endif
