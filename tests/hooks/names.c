/* A library with names that begin like CUDA's and are not: a look-up must find these very
 * functions. */
#define _GNU_SOURCE
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

#define NAMES(NAME)           \
	NAME(curl_easy_init)  \
	NAME(cublasCreate_v2) \
	NAME(cudnnCreate) NAME(cu) NAME(cuMemAlloc_v22) NAME(cuda) NAME(ncclCommCount)
#define NAME(symbol)             \
	EXPORT int symbol(void); \
	EXPORT int symbol(void)  \
	{                        \
		return __LINE__; \
	}
NAMES(NAME)

/* The function that this library's own RTLD_NEXT finds: the place of the look-up must not be
 * lost. */
EXPORT void *next_from_here(const char *name);

EXPORT void *next_from_here(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	return found;
}
