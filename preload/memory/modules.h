/* The library (module) of a return address: looked up once, then found without a lock. */
#ifndef PRELOAD_MODULES_H
#define PRELOAD_MODULES_H

#include <stdint.h>

struct module {
	uint32_t id;    /* of the tables; 0: unknown */
	uint32_t stack; /* of the tables: this module without a Python stack; 0: not known yet */
	uint8_t is_allocator; /* contains PyTorch's caching allocator, as libc10_cuda.so does */
	uint8_t is_renamed;   /* an allocator under another name: a static or monolithic PyTorch */
	uint8_t is_nccl;
};

struct module module_of(const void *address);

/* Prefetches what module_of(ADDRESS) reads. */
void modules_prefetch(const void *address);

/* Call this in a forked child. */
void modules_forget(void);

/* A library was unloaded: another may be loaded at its address. */
void modules_forget_unloaded(void);

#endif
