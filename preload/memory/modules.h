/* Which library called: ids of the tables for return addresses, found once and then without a lock.
 */
#ifndef PRELOAD_MODULES_H
#define PRELOAD_MODULES_H

#include <stdint.h>

struct module {
	uint32_t id;          /* of the tables; 0: unknown */
	uint32_t stack;       /* of the tables: this module without a stack; 0: not known yet */
	uint8_t is_allocator; /* libc10_cuda.so, or what else has PyTorch's caching allocator in it
			       */
	uint8_t is_renamed;   /* an allocator under another name: a static or monolithic PyTorch */
	uint8_t is_nccl;
};

struct module module_of(const void *address);

/* In a forked child. */
void modules_forget(void);

/* A library was unloaded: another may come to its place. */
void modules_forget_unloaded(void);

#endif
