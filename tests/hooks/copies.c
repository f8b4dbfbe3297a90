/*
 * Copies of the CUDA runtime and of NCCL in one process. The file is one of three things, by
 * macro: COPY=n, a library that is both, and gives addresses and communicators that only it
 * knows; PLUGIN, a library that is linked with one; otherwise a program that loads the plugins
 * RTLD_LOCAL, and runs the scenario that it is told.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MiB (1l << 20)

struct id {
	char internal[128];
};
struct comm {
	int copy, size, rank, ready;
};
struct plugin {
	int (*take)(void **p, size_t bytes);
	int (*give)(void *p);
	int (*reset)(void);
	int (*asked)(void); /* number of times that the runtime was asked for its device */
	int (*talk)(void);
	void *(*look)(const char *name);
	void (**leave)(void); /* the function that cudaMalloc() calls */
};

int cudaMalloc(void **p, size_t n);
int cudaFree(void *p);
int cudaGetDevice(int *device);
int cudaDeviceReset(void);
int ncclCommInitRank(struct comm **c, int size, struct id id, int rank);
int ncclCommSplit(struct comm *c, int color, int key, struct comm **out, void *config);
int ncclCommCount(const struct comm *c, int *count);
int ncclCommUserRank(const struct comm *c, int *rank);
int ncclCommDestroy(struct comm *c);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int asked(void);
extern void (*leave)(void);
extern struct plugin plugin;

#ifdef COPY

static int asks, depth;
static struct comm *made;
void (*leave)(void);

int cudaMalloc(void **p, size_t n)
{
	static size_t used;

	if (leave)
		leave();
	*p = (char *)0x7d0000000000 + ((long)COPY << 36) + used;
	used += n;
	return 0;
}

int cudaFree(void *p)
{
	return (uintptr_t)p >> 36 == (0x7d0000000000 >> 36) + COPY ? 0 : 1;
}

int cudaGetDevice(int *device)
{
	asks++;
	*device = 0;
	return 0;
}

int cudaDeviceReset(void)
{
	return 0;
}

int asked(void)
{
	return asks;
}

static void *valid(const struct comm *c)
{
	if (c->copy != COPY || !c->ready) {
		fprintf(stderr, "NCCL %d: not a communicator of mine that is ready\n", COPY);
		abort();
	}
	return NULL;
}

int ncclCommInitRank(struct comm **c, int size, struct id id, int rank)
{
	(void)id;
	*c = malloc(sizeof(**c));
	**c = (struct comm){ COPY, size, rank, 1 };
	return 0;
}

int ncclCommSplit(struct comm *c, int color, int key, struct comm **out, void *config)
{
	(void)color;
	(void)key;
	(void)config;
	valid(c);
	*out = made = malloc(sizeof(**out));
	**out = (struct comm){ COPY, c->size / 2, c->rank / 2, !depth };
	return 0;
}

int ncclCommCount(const struct comm *c, int *count)
{
	valid(c);
	*count = c->size;
	return 0;
}

int ncclCommUserRank(const struct comm *c, int *rank)
{
	valid(c);
	*rank = c->rank;
	return 0;
}

int ncclCommDestroy(struct comm *c)
{
	valid(c);
	free(c);
	return 0;
}

int ncclGroupStart(void)
{
	depth++;
	return 0;
}

int ncclGroupEnd(void)
{
	if (!--depth && made)
		made->ready = 1;
	return 0;
}

#elif defined(PLUGIN)

static int take(void **p, size_t bytes)
{
	int result = cudaMalloc(p, bytes);

	return result;
}

static int give(void *p)
{
	int result = cudaFree(p);

	return result;
}

static int reset(void)
{
	int result = cudaDeviceReset();

	return result;
}

static int talk(void)
{
	struct comm *all, *half, *quarter;
	struct id id = { "" };
	int result = ncclCommInitRank(&all, 8 * PLUGIN, id, 5);

	result |= ncclCommSplit(all, 0, 0, &half, NULL);
	result |= ncclGroupStart() | ncclGroupStart();
	result |= ncclCommSplit(half, 0, 0, &quarter, NULL);
	result |= ncclGroupEnd();
	result |= ncclGroupEnd();
	result |= ncclCommDestroy(quarter);
	result |= ncclCommDestroy(half);
	result |= ncclCommDestroy(all);
	return result;
}

static void *look(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	return found;
}

struct plugin plugin = { take, give, reset, asked, talk, look, &leave };

#else

static jmp_buf back;

static void jump(void)
{
	longjmp(back, 1);
}

static struct plugin *load(const char *path, void **handle)
{
	*handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!*handle)
		fprintf(stderr, "%s\n", dlerror());
	return *handle ? dlsym(*handle, "plugin") : NULL;
}

static void expect(const char *what, long got, long wanted)
{
	if (got != wanted)
		fprintf(stderr, "%s: %ld, not %ld\n", what, got, wanted);
}

static void *taken(struct plugin *p, long bytes)
{
	void *a = NULL;

	expect("cudaMalloc", p->take(&a, (size_t)bytes), 0);
	printf("event DEVICE_ALLOC %lu %ld 0\n", (unsigned long)a, bytes);
	return a;
}

static void given(struct plugin *p, void *a, long bytes)
{
	expect("cudaFree", p->give(a), 0);
	printf("event DEVICE_FREE %lu %ld 0\n", (unsigned long)a, -bytes);
}

static void two(struct plugin *p1, struct plugin *p2)
{
	void *a = taken(p1, 3 * MiB), *b = taken(p2, 5 * MiB), *c = taken(p1, 7 * MiB);
	int before;

	given(p2, b, 5 * MiB);
	given(p1, a, 3 * MiB);
	before = p2->asked();
	expect("cudaDeviceReset", p2->reset(), 0);
	expect("the reset runtime was asked for its device", p2->asked() > before, 1);
	printf("event DEVICE_FREE %lu %ld 0\n", (unsigned long)c, -7 * MiB);
	given(p2, taken(p2, MiB), MiB);
}

/* The program must end as without the preload: in a child made without fork()'s handlers. */
static void forked(struct plugin *p)
{
	void *a = taken(p, 3 * MiB);
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = _Fork();
	if (!child)
		exit(0);
	for (int i = 0; i < 500 && waitpid(child, &status, WNOHANG) == 0; i++)
		usleep(10000);
	if (status) {
		kill(child, SIGKILL);
		expect("the child ended", status, 0);
	}
	given(p, a, 3 * MiB);
}

/* Closes the plugin and loads it again at another address. */
static void reload(const char *path, void *handle, struct plugin *p, struct plugin *other)
{
	long page = sysconf(_SC_PAGESIZE);
	uintptr_t here[2];
	Dl_info was;
	void *first = taken(p, 3 * MiB);

	taken(other, 5 * MiB);
	here[0] = (uintptr_t)p & -(uintptr_t)page;
	dladdr((void *)p->asked, &was);
	here[1] = (uintptr_t)was.dli_fbase;
	dlclose(handle);
	taken(other, 9 * MiB);
	for (int i = 0; i < 2; i++)
		for (int k = -4; k < 4; k++)
			mmap((void *)(here[i] + (uintptr_t)(k * page)), (size_t)page, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	p = load(path, &handle);
	if (!p)
		exit(2);
	expect("loaded elsewhere", ((uintptr_t)p & -(uintptr_t)page) == here[0], 0);
	given(other, taken(other, 2 * MiB), 2 * MiB);
	/* The new runtime begins anew: the memory of the old one is gone. */
	printf("event DEVICE_FREE %lu %ld 0\n", (unsigned long)first, -3 * MiB);
	expect("the same address", taken(p, 11 * MiB) == first, 1);
}

static void out_of_scope(struct plugin *p)
{
	const char *names[] = { "cudaMalloc", "ncclCommInitRank", "cuMemAlloc_v2" };

	for (int i = 0; i < 3; i++) {
		void *f = dlsym(RTLD_DEFAULT, names[i]);
		const char *error = dlerror();
		printf("default %s %s\n", f ? "found" : "not found", error ? error : "-");
		f = dlsym(RTLD_NEXT, names[i]);
		error = dlerror();
		printf("next %s %s\n", f ? "found" : "not found", error ? error : "-");
		f = dlsym(dlopen(NULL, RTLD_NOW), names[i]);
		error = dlerror();
		printf("main %s %s\n", f ? "found" : "not found", error ? error : "-");
		f = p->look(names[i]);
		error = dlerror();
		printf("plugin %s %s\n", f ? "found" : "not found", error ? error : "-");
	}
}

static void *tried(struct plugin *p, long bytes)
{
	void *a = NULL;

	return setjmp(back) || p->take(&a, (size_t)bytes) ? NULL : a;
}

/* A call that is left by a jump is over: a second try is counted. */
static void jumped(struct plugin *p)
{
	void *a = taken(p, 3 * MiB);

	*p->leave = jump;
	expect("left", tried(p, 5 * MiB) == NULL, 1);
	*p->leave = NULL;
	a = tried(p, 5 * MiB);
	printf("event DEVICE_ALLOC %lu %ld 0\n", (unsigned long)a, 5 * MiB);
	given(p, a, 5 * MiB);
}

/* Memory that is not recorded is not asked about. */
static void disabled(struct plugin *p)
{
	void *a;

	expect("take", p->reset() | p->take(&a, MiB) | p->give(a), 0);
	expect("asked", p->asked(), 0);
}

int main(int argc, char **argv)
{
	void *handle, *second;
	struct plugin *p1 = argc > 2 ? load(argv[2], &handle) : NULL,
		      *p2 = argc > 3 ? load(argv[3], &second) : NULL;

	if (!p1)
		return 2;
	if (strcmp(argv[1], "two") == 0)
		two(p1, p2);
	else if (strcmp(argv[1], "nccl") == 0) {
		taken(p2, MiB);
		expect("talk", p1->talk() | p2->talk(), 0);
	} else if (strcmp(argv[1], "fork") == 0)
		forked(p1);
	else if (strcmp(argv[1], "reload") == 0)
		reload(argv[2], handle, p1, p2);
	else if (strcmp(argv[1], "scope") == 0)
		out_of_scope(p1);
	else if (strcmp(argv[1], "jump") == 0)
		jumped(p1);
	else if (strcmp(argv[1], "disabled") == 0)
		disabled(p1);
	return 0;
}

#endif
