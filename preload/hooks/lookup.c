#define _GNU_SOURCE
#include "hooks/entries.h"

#include "hooks/lookup.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "memory/cuda.h"
#include "symbols/resolve.h"
#include "symbols/scope.h"
#include "record/tables.h"
#include "base/text.h"

#define PER_THREAD \
	2u /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, and the runtime's number for it */
#define VERSION_NOT_SAID 0

static struct {
	atomic_uint asked;   /* cuGetProcAddress or a similar call succeeded */
	atomic_uint unknown; /* a hooked name in a version that is not known: passed on as it was
				found */
	atomic_uint others;  /* a hooked name was found in another tracer or shim */
} count;

/* ---- the row of a name */

static int is_twin(const char *symbol)
{
	size_t n = strlen(symbol);

	return n > 5 && strcmp(symbol + n - 5, "_ptsz") == 0;
}

/* cuMemAllocAsync_ptsz, cuMemAlloc_v2 and cuMemAlloc have the base names that cuGetProcAddress
 * knows. */
static int is_base_of(const char *name, const char *symbol)
{
	size_t n = strlen(name);

	if (strncmp(symbol, name, n) != 0)
		return 0;
	symbol += n;
	if (symbol[0] == '_' && symbol[1] == 'v' && symbol[2] >= '2' && symbol[2] <= '9')
		symbol += 3;
	return !*symbol || strcmp(symbol, "_ptsz") == 0;
}

static const struct hook *named(const char *symbol)
{
	for (unsigned i = 0; i < hooks_count; i++)
		if (strcmp(hooks[i].symbol, symbol) == 0)
			return &hooks[i];
	return NULL;
}

static int is_hooked(const char *name)
{
	for (unsigned i = 0; i < hooks_count; i++)
		if (hooks[i].since && is_base_of(name, hooks[i].symbol))
			return 1;
	return 0;
}

const struct hook *lookup_choose(const char *name, int version, uint64_t flags)
{
	const struct hook *best = NULL;
	int known = 0;

	for (unsigned i = 0; i < hooks_count; i++) {
		const struct hook *h = &hooks[i];
		int twin;
		if (!h->since || !is_base_of(name, h->symbol))
			continue;
		known = 1;
		twin = is_twin(h->symbol);
		if (h->since > version || (twin && !(flags & PER_THREAD)))
			continue;
		if (!best || twin > is_twin(best->symbol) ||
		    (twin == is_twin(best->symbol) && h->since > best->since))
			best = h;
	}
	return best || known ? best : named(name);
}

/* ---- the answer */

/* The wrapper of H in place of FOUND, which it will call. */
static void *answer(const struct hook *h, void *found)
{
	void *known = NULL;

	/* The wrapper calls another function of that name. FOUND is of a second runtime or NCCL,
	 * whose calls reach the driver all the same, or of a shim: it would call us and we it. */
	if (!__atomic_compare_exchange_n(h->real, &known, found, 0, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    known != found)
		return found;
	cuda_uses(h->symbol, found);
	return h->wrapper;
}

/* Asks the driver itself. */
static void *ask(const char *name, int version, uint64_t flags)
{
	__typeof__(cuGetProcAddress_v2) *v2 = DEFAULT(cuGetProcAddress_v2);
	__typeof__(cuGetProcAddress) *v1 = v2 ? NULL : DEFAULT(cuGetProcAddress);
	CUdriverProcAddressQueryResult status;
	void *f = NULL;
	CUresult result = v2   ? v2(name, &f, version, flags, &status)
			  : v1 ? v1(name, &f, version, flags)
			       : CUDA_ERROR_NOT_FOUND;

	return result == CUDA_SUCCESS ? f : NULL;
}

/* The caller asked for a version later than we know, or for none: the driver shows the interface
 * of FOUND by giving FOUND again. */
static const struct hook *identify(const char *name, uint64_t flags, const void *found)
{
	const struct hook *best = NULL;

	for (unsigned i = 0; i < hooks_count; i++) {
		const struct hook *h = &hooks[i];
		if (h->since && is_base_of(name, h->symbol) && (!best || h->since > best->since) &&
		    ask(name, h->since, flags) == found)
			best = lookup_choose(name, h->since, flags);
	}
	return best;
}

/* A look-up of NAME succeeded and found *FUNCTION. */
static void found(const char *name, void **function, int version, uint64_t flags)
{
	const struct hook *h;

	if (!name || !function || !*function)
		return;
	atomic_fetch_add(&count.asked, 1);
	if (resolve_is_ours(*function)) /* the look-up was answered by another of our wrappers */
		return;
	h = version != VERSION_NOT_SAID && version <= CUDA_VERSION
		    ? lookup_choose(name, version, flags)
		    : identify(name, flags, *function);
	if (h)
		*function = answer(h, *function);
	else if (is_hooked(name))
		atomic_fetch_add(&count.unknown, 1);
}

/* Only look-ups that were not understood are reported: the memory of those functions is not
 * seen. */
void lookup_describe(void)
{
	struct short_text t = { 0 };

	if (atomic_load(&count.unknown)) {
		text_number(&t, atomic_load(&count.unknown));
		text_str(&t, " of ");
		text_number(&t, atomic_load(&count.asked));
		text_str(&t, " driver functions that were looked up have an interface that is not "
			     "known: what they allocate is not seen");
	}
	if (atomic_load(&count.others)) {
		text_str(&t, t.n ? "; " : "");
		text_number(&t, atomic_load(&count.others));
		text_str(&t, " look-ups of CUDA functions were answered by another preload: what "
			     "those allocate may not be seen");
	}
	if (t.n)
		tables_meta(MT_META_NOTE, "lookups", t.s, t.n);
}

/* ---- CUDA's look-ups */

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
	__typeof__(cuGetProcAddress) *call = REAL(cuGetProcAddress);
	CUresult result = call ? call(name, function, version, flags) : NOT_LOADED;

	if (result == CUDA_SUCCESS)
		found(name, function, version, flags);
	return result;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	__typeof__(cuGetProcAddress_v2) *call = REAL(cuGetProcAddress_v2);
	CUresult result = call ? call(name, function, version, flags, status) : NOT_LOADED;

	if (result == CUDA_SUCCESS)
		found(name, function, version, flags);
	return result;
}

/* The runtime's look-ups: a twin's default is the thread's own stream. CUDA 11 had no `status`:
 * the value in its place is only passed on. */
#define ENTRY_POINT(symbol, default_flags)                                                        \
	cudaError_t symbol(const char *name, void **function, unsigned long long flags,           \
			   enum cudaDriverEntryPointQueryResult *status)                          \
	{                                                                                         \
		__typeof__(symbol) *call = REAL(symbol);                                          \
		cudaError_t result =                                                              \
			call ? call(name, function, flags, status) : (cudaError_t)NOT_LOADED;     \
		if (result == cudaSuccess)                                                        \
			found(name, function, VERSION_NOT_SAID, flags ? flags : (default_flags)); \
		return result;                                                                    \
	}
ENTRY_POINT(cudaGetDriverEntryPoint, 0)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, PER_THREAD)

#define ENTRY_POINT_BY_VERSION(symbol, default_flags)                                              \
	cudaError_t symbol(const char *name, void **function, unsigned version,                    \
			   unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) \
	{                                                                                          \
		__typeof__(symbol) *call = REAL(symbol);                                           \
		cudaError_t result = call ? call(name, function, version, flags, status)           \
					  : (cudaError_t)NOT_LOADED;                               \
		if (result == cudaSuccess)                                                         \
			found(name, function, (int)version, flags ? flags : (default_flags));      \
		return result;                                                                     \
	}
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion, 0)
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz, PER_THREAD)

/* ---- dlsym() and dlvsym(): dlsym.S jumps here for names that begin like CUDA's or NCCL's */

typedef void *real_dlsym(void *handle, const char *name);
typedef void *real_dlvsym(void *handle, const char *name, const char *version);

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN extern real_dlsym *lookup_real_dlsym;
HIDDEN extern real_dlvsym *lookup_real_dlvsym;
real_dlsym *lookup_real_dlsym;
real_dlvsym *lookup_real_dlvsym;
/* Do these functions belong to another preload? */
HIDDEN extern char lookup_dlsym_is_chained, lookup_dlvsym_is_chained;
char lookup_dlsym_is_chained, lookup_dlvsym_is_chained;

HIDDEN void lookup_begin(void);
HIDDEN const char *lookup_in_scope(const char *name, const void *caller);
HIDDEN void *lookup_dlsym(void *handle, const char *name);
HIDDEN void *lookup_dlvsym(void *handle, const char *name, const char *version);

/* The function of another preload behind us, or of the C library: looked up once. Never that of
 * a preload before us, which calls us; nor the host's own. */
static void *next(const char *name)
{
	void *f = resolve_in_preload(name);

	return f ? f : resolve_in_libc(name);
}

void lookup_begin(void)
{
	lookup_dlsym_is_chained = resolve_in_preload("dlsym") != NULL;
	lookup_dlvsym_is_chained = resolve_in_preload("dlvsym") != NULL;
	__atomic_store_n(&lookup_real_dlvsym, next("dlvsym"), __ATOMIC_RELEASE);
	__atomic_store_n(&lookup_real_dlsym, next("dlsym"), __ATOMIC_RELEASE);
}

/* Does an object behind us export that name to all? Only the loader knows. */
static int is_in_everyones_scope(const char *name)
{
	static real_dlsym *libc_dlsym;

	if (!__atomic_load_n(&libc_dlsym, __ATOMIC_ACQUIRE))
		__atomic_store_n(&libc_dlsym, resolve_in_libc("dlsym"), __ATOMIC_RELEASE);
	return libc_dlsym && libc_dlsym(RTLD_NEXT, name) != NULL;
}

/* A name that the real dlsym() does not find; dlerror() then takes the first byte away. */
static const char *hidden(const struct hook *h)
{
	return h->symbol - 1;
}

/*
 * Our definition of a hooked function comes first in every scope, even without CUDA, or with a
 * CUDA that was loaded RTLD_LOCAL for others: then the look-up must fail.
 */
const char *lookup_in_scope(const char *name, const void *caller)
{
	const struct hook *h = named(name);

	return h && !is_in_everyones_scope(name) && !scope_choose(name, caller).chosen ? hidden(h)
										       : name;
}

/* The real dlerror() names the symbol that was looked up. */
EXPORT char *dlerror(void);
char *dlerror(void)
{
	static char *(*real)(void);
	char *text, *p;

	if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE)) {
		void *f = next("dlerror");
		__atomic_store_n((void **)&real, f, __ATOMIC_RELEASE);
	}
	text = real ? real() : NULL;
	p = text ? strchr(text, 1) : NULL;
	if (p)
		memmove(p, p + 1, strlen(p));
	return text;
}

/* Is FUNCTION in libcuda, libcudart or libnccl? Any other library that defines such names is a
 * tracer or a shim, which calls the real functions. */
static int is_nvidias(const void *function)
{
	char file[64];

	if (!resolve_module_file(function, file, sizeof(file)))
		return 0;
	return strncmp(file, "libcuda", strlen("libcuda")) == 0 ||
	       strncmp(file, "libnccl", strlen("libnccl")) == 0;
}

/* NAME was looked up in a library and F found. Returns 0 if the look-up must fail. */
static int found_in_library(const char *name, void **f)
{
	const struct hook *h = *f ? named(name) : NULL;

	if (!h)
		return 1;
	if (resolve_is_ours(*f))
		return is_in_everyones_scope(name);
	if (is_nvidias(*f))
		*f = answer(h, *f);
	else
		atomic_fetch_add(&count.others, 1);
	return 1;
}

void *lookup_dlsym(void *handle, const char *name)
{
	void *f = lookup_real_dlsym(handle, name);

	return found_in_library(name, &f) ? f : lookup_real_dlsym(handle, hidden(named(name)));
}

void *lookup_dlvsym(void *handle, const char *name, const char *version)
{
	void *f = lookup_real_dlvsym(handle, name, version);

	return found_in_library(name, &f)
		       ? f
		       : lookup_real_dlvsym(handle, hidden(named(name)), version);
}
