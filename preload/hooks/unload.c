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
#include "hooks/autograd.h"
#include "hooks/grad_mode.h"
#include "hooks/hooks.h"
#include "hooks/optimized.h"
#include "hooks/real.h"
#include "memory/modules.h"
#include "python/pystack.h"
#include "symbols/resolve.h"
#include "hooks/torch.h"

/* A function that is in no loaded object now, while another object has it, was unloaded. */
static void forget_real_functions(void)
{
	char path[2];

	cuda_uses_none();
	for (unsigned i = 0; i < hooks_count; i++) {
		void *f = __atomic_load_n(hooks[i].real, __ATOMIC_RELAXED);
		if (f && !resolve_module(f, path, sizeof(path)))
			__atomic_compare_exchange_n(hooks[i].real, &f, resolve(hooks[i].symbol), 0,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		f = __atomic_load_n(hooks[i].real, __ATOMIC_RELAXED);
		if (f)
			cuda_uses(hooks[i].symbol, f);
	}
	real_forget_choices();
}

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
		forget_real_functions();
		modules_forget_unloaded();
		cuda_forget();
		pystack_forget();
		torch_forget();
		autograd_forget();
		grad_mode_forget();
		optimized_forget();
	}
	errno = e;
	return result;
}
