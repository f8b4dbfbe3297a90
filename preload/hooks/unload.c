/*
 * dlclose(): when it has unloaded an object, the functions found in objects are forgotten.
 * Pinning the libraries (RTLD_NODELETE) would change the host: a library that it closes to start
 * afresh would keep its state. Asking the loader at each hooked call whether anything was
 * unloaded would cost its lock. The loader counts the objects that it unloads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "memory/cuda.h"
#include "hooks/real.h"
#include "memory/modules.h"
#include "python/pystack.h"
#include "symbols/resolve.h"
#include "hooks/torch.h"

__attribute__((visibility("default"))) int dlclose(void *handle)
{
	static int (*real)(void *);
	static _Atomic unsigned long long unloaded;
	unsigned long long now;
	int result, e;

	if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE)) {
		void *f = resolve_in_preload("dlclose");
		__atomic_store_n((void **)&real, f ? f : resolve_in_libc("dlclose"),
				 __ATOMIC_RELEASE);
	}
	if (!real)
		return -1;
	result = real(handle);
	e = errno;
	now = resolve_unloaded();
	if (atomic_exchange(&unloaded, now) != now) {
		real_forget_unloaded();
		modules_forget_unloaded();
		cuda_forget();
		pystack_forget();
		torch_forget();
	}
	errno = e;
	return result;
}
