/* Kernels do nothing on the simulated device, but for a few that decide what the host does next:
 * comparisons, counts, routing. Those are recognised by name (kernels.def) and computed, where they
 * are small, on the host memory that backs small device buffers. Large tensors, and what only other
 * kernels read, are left alone.
 *
 * A handler that does not find what it expects (another version's layout of arguments) computes
 * nothing and says so, once a kernel.
 */
#define _GNU_SOURCE
#include "kernels/kernels.h"

#include "device/common.h"
#include "device/hash.h"
#include "device/not_simulated.h"
#include "device/settings.h"
#include "kernels/computed.h"
#include "kernels/random.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- every kernel's name, by the address that programs launch it by */

struct kernel {
	const void *host;
	const char *name; /* mangled; demangled once it has been launched */
	bool (*compute)(const struct launch *l);
	bool seen, warned;
	unsigned outputs; /* of an unknown kernel: its arguments that point to integers */
	UT_hash_handle hh;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct kernel *kernels; /* by `host` */

/* The lock is held. NULL: not registered. */
static struct kernel *kernel_at(const void *host)
{
	struct kernel *kernel;
	HASH_FIND_PTR(kernels, &host, kernel);
	return kernel;
}

static void add(const void *host, const char *name)
{
	struct kernel *kernel = calloc(1, sizeof *kernel);
	if (!kernel)
		return;
	*kernel = (struct kernel){ .host = host, .name = name };
	hash_was_full = false;
	HASH_ADD_PTR(kernels, host, kernel);
	if (hash_was_full)
		free(kernel);
}

void kernel_register(const void *host, const char *name)
{
	pthread_rwlock_wrlock(&lock);
	struct kernel *kernel = kernel_at(host);
	if (kernel) { /* a library was unloaded, and another has its address */
		kernel->name = name;
		kernel->compute = NULL;
		kernel->seen = kernel->warned = false;
		kernel->outputs = 0;
	} else {
		add(host, name);
	}
	pthread_rwlock_unlock(&lock);
}

bool kernel_registered(const char *part)
{
	bool found = false;
	pthread_rwlock_rdlock(&lock);
	for (struct kernel *k = kernels; k && !found; k = k->hh.next)
		found = strstr(k->name, part);
	pthread_rwlock_unlock(&lock);
	return found;
}

/* By the C++ library of the program that has C++ kernels. */
static const char *demangle(const char *name)
{
	static char *(*real)(const char *, char *, size_t *, int *);
	int status = 0;
	if (!real) {
		void *library = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY);
		if (library)
			*(void **)&real = dlsym(library, "__cxa_demangle");
	}
	char *clear = real ? real(name, NULL, NULL, &status) : NULL;
	return clear ? clear : name;
}

static const struct {
	const char *part, *second;
	bool (*compute)(const struct launch *l);
} computed[] = {
#define KERNEL(part, second, compute) { part, second, compute },
#include "kernels/kernels.def"
#undef KERNEL
};

static void recognise(struct kernel *kernel)
{
	kernel->name = demangle(kernel->name);
	for (size_t i = 0; i < LENGTH(computed) && !kernel->compute; i++)
		if (strstr(kernel->name, computed[i].part) &&
		    strstr(kernel->name, computed[i].second))
			kernel->compute = computed[i].compute;
	if (!kernel->compute && strstr(kernel->name, "at::native::") &&
	    !strstr(kernel->name, "cub::"))
		kernel->outputs = launch_outputs(kernel->name);
	sim_log("kernel %s%s", kernel->compute ? "(computed) " : "", kernel->name);
	kernel->seen = true;
}

static bool find(const void *host, struct kernel *found)
{
	pthread_rwlock_rdlock(&lock);
	struct kernel *kernel = kernel_at(host);
	bool known = kernel;
	if (known)
		*found = *kernel;
	pthread_rwlock_unlock(&lock);
	if (!known || found->seen)
		return known;
	pthread_rwlock_wrlock(&lock);
	kernel = kernel_at(host);
	if (!kernel->seen)
		recognise(kernel);
	*found = *kernel;
	pthread_rwlock_unlock(&lock);
	return true;
}

static void warn(const struct kernel *which)
{
	pthread_rwlock_wrlock(&lock);
	struct kernel *kernel = kernel_at(which->host);
	bool warned = !kernel || kernel->warned;
	if (kernel)
		kernel->warned = true;
	pthread_rwlock_unlock(&lock);
	if (!warned)
		sim_say_once(
			"kernel %.400s is not simulated: sizes that depend on what it writes will differ",
			which->name);
}

void kernel_run(const void *host, void **arguments, unsigned columns, unsigned rows)
{
	struct kernel kernel;
	bool known = find(host, &kernel);
	if (!known || kernel.compute != compute_topk)
		random_forget();
	if (!known)
		return;
	struct launch l = { kernel.name, arguments, columns, rows };
	if (kernel.outputs)
		launch_taint(&l, kernel.outputs);
	if (!kernel.compute)
		return;
	launch_begins();
	if (!kernel.compute(&l))
		warn(&kernel);
}
