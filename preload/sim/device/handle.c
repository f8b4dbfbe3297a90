/* Opaque handles: never NULL, never the same twice, never a pointer to anything. */
#include "device/handle.h"

#include <stdint.h>

#include <stdatomic.h>

void *handle_new(void)
{
	static _Atomic uintptr_t last = 0x100000;
	return (void *)(atomic_fetch_add(&last, 16) + 16);
}
