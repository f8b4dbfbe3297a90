/*
 * Looks up names in every way, and prints the place of each (object and offset) or dlerror()'s
 * text: the same with libmemtrace.so preloaded and without. look LIBRARY: names.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print(const char *how, const char *name, const void *found)
{
	const char *said = dlerror(), *slash;
	Dl_info where;

	printf("%s %s: ", how, name);
	if (!found || !dladdr(found, &where)) {
		printf("%s %s\n", found ? "nowhere" : "NULL", said ? said : "(no error)");
		return;
	}
	slash = strrchr(where.dli_fname, '/');
	printf("%s+%#lx%s%s\n", slash ? slash + 1 : where.dli_fname,
	       (unsigned long)((const char *)found - (const char *)where.dli_fbase),
	       said ? " " : "", said ? said : "");
}

static const char *const names[] = { "malloc",
				     "printf",
				     "getppid",
				     "atof",
				     "strlen",
				     "curl_easy_init",
				     "cublasCreate_v2",
				     "cudnnCreate",
				     "cu",
				     "cuda",
				     "cuMemAlloc_v22",
				     "cuMemAllo",
				     "ncclCommCount",
				     "",
				     "nonsense",
				     "environ",
				     "pthread_create",
				     "_ZN3c106DeviceE",
				     "cudaMallocX",
				     "cuMemAlloc_v2 ",
				     "cudaMalloc",
				     "cuMemAlloc_v2",
				     "ncclCommInitRank" };
static const struct {
	const char *name, *version;
} versioned[] = { { "memcpy", "GLIBC_2.14" },
		  { "memcpy", "GLIBC_2.2.5" },
		  { "realpath", "GLIBC_2.3" },
		  { "realpath", "GLIBC_2.2.5" },
		  { "malloc", "GLIBC_2.2.5" },
		  { "malloc", "GLIBC_2.17" },
		  { "malloc", "GLIBC_9.9" },
		  { "getppid", "GLIBC_2.2.5" },
		  { "pthread_cond_wait", "GLIBC_2.3.2" },
		  { "nonsense", "GLIBC_2.2.5" },
		  { "cublasCreate_v2", "GLIBC_2.2.5" } };

static void *look(void *library)
{
	void *(*next_from_here)(const char *) =
		(void *(*)(const char *))dlsym(library, "next_from_here");
	void *(*second_next)(const char *) =
		(void *(*)(const char *))dlsym(RTLD_DEFAULT, "second_next");

	dlerror();
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		print("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		print("next", names[i], dlsym(RTLD_NEXT, names[i]));
		print("handle", names[i], dlsym(library, names[i]));
		print("from library", names[i], next_from_here(names[i]));
		print("from second", names[i], second_next ? second_next(names[i]) : NULL);
	}
	for (unsigned i = 0; i < sizeof(versioned) / sizeof(*versioned); i++) {
		print("default version", versioned[i].version,
		      dlvsym(RTLD_DEFAULT, versioned[i].name, versioned[i].version));
		print("next version", versioned[i].version,
		      dlvsym(RTLD_NEXT, versioned[i].name, versioned[i].version));
		print("handle version", versioned[i].version,
		      dlvsym(library, versioned[i].name, versioned[i].version));
	}
	return NULL;
}

/* The end of a process that looks up no name at all. */
static void null_name(void)
{
	const char *volatile none = NULL;
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		(void)dlsym(RTLD_DEFAULT, none);
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("null name: %d %d\n", WIFSIGNALED(status),
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	pthread_t thread;

	if (!library)
		return 2;
	look(library);
	pthread_create(&thread, NULL, look, library);
	pthread_join(thread, NULL);
	printf("%d %g\n", getppid() > 0, atof("2.5"));
	fflush(stdout);
	null_name();
	return 0;
}
