/*
 * Makes calls of libmemtrace.so fail. FAIL=NAME,K,ERRNO,once|ever: the K-th call (from 1) of that C
 * library function from libmemtrace.so, or it and all later ones. FAIL_CALL=NUMBER,ERRNO: that
 * system call of the whole process and of what it starts, by seccomp, from the start of the program
 * on. LATE=NAME: each call of that function from libmemtrace.so takes 200 ms more. The programs
 * that this is loaded into make none of these calls themselves after their start.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char name[64], mode[16];
static const char *late;
static int at, error;
static atomic_int calls;
static uintptr_t low, high;

static int find(struct dl_phdr_info *o, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!strstr(o->dlpi_name, "libmemtrace.so"))
		return 0;
	for (int i = 0; i < o->dlpi_phnum; i++) {
		uintptr_t start = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr;
		if (o->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		low = low && low < start ? low : start;
		high = high > start + o->dlpi_phdr[i].p_memsz ? high
							      : start + o->dlpi_phdr[i].p_memsz;
	}
	return 0;
}

static void refuse(unsigned number, unsigned with)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | with),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		abort();
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("FAIL"), *call = getenv("FAIL_CALL");
	unsigned number, with;

	late = getenv("LATE");
	dl_iterate_phdr(find, NULL);
	if (what && sscanf(what, "%63[^,],%d,%d,%15s", name, &at, &error, mode) != 4)
		abort();
	if (call && sscanf(call, "%u,%u", &number, &with) == 2)
		refuse(number, with);
}

static int fails(const char *function, const void *caller)
{
	int n;

	if ((uintptr_t)caller < low || (uintptr_t)caller >= high)
		return 0;
	if (late && strcmp(function, late) == 0)
		usleep(200000);
	if (strcmp(function, name) != 0)
		return 0;
	n = ++calls;
	return strcmp(mode, "ever") == 0 ? n >= at : n == at;
}

__attribute__((destructor)) static void end(void)
{
	if (*name && getenv("FAIL_SAY"))
		fprintf(stderr, "%s was called %d times\n", name, (int)calls);
}

/* A function that returns -1 and sets errno, or (WITH) returns the error. */
#define FAILS(function, failure, ...)                          \
	static __typeof__(&function) real;                     \
	if (!real)                                             \
		*(void **)&real = dlsym(RTLD_NEXT, #function); \
	if (fails(#function, __builtin_return_address(0))) {   \
		errno = error;                                 \
		return failure;                                \
	}                                                      \
	return real(__VA_ARGS__)

void *mmap(void *a, size_t n, int p, int f, int d, off_t o)
{
	FAILS(mmap, MAP_FAILED, a, n, p, f, d, o);
}
void *mremap(void *a, size_t old, size_t n, int f, ...)
{
	FAILS(mremap, MAP_FAILED, a, old, n, f);
}
int munlock(const void *a, size_t n)
{
	FAILS(munlock, -1, a, n);
}
int madvise(void *a, size_t n, int w)
{
	FAILS(madvise, -1, a, n, w);
}
int getrlimit(__rlimit_resource_t r, struct rlimit *l)
{
	FAILS(getrlimit, -1, r, l);
}
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x)
{
	FAILS(pthread_create, error, t, a, f, x);
}
int pthread_attr_init(pthread_attr_t *a)
{
	FAILS(pthread_attr_init, error, a);
}
/* System calls that libmemtrace.so makes itself. */
long syscall(long number, ...)
{
	static const struct {
		long number;
		const char *name;
	} calls_of_files[] = { { SYS_openat, "openat" },
			       { SYS_read, "read" },
			       { SYS_mkdirat, "mkdirat" },
			       { SYS_pwrite64, "pwrite64" },
			       { SYS_ftruncate, "ftruncate" } };
	static __typeof__(&syscall) real;
	const void *caller = __builtin_return_address(0);
	long a[6];
	va_list more;

	va_start(more, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(more, long);
	va_end(more);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	for (size_t i = 0; i < sizeof(calls_of_files) / sizeof(calls_of_files[0]); i++)
		if (number == calls_of_files[i].number && fails(calls_of_files[i].name, caller)) {
			errno = error;
			return -1;
		}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
char *getcwd(char *b, size_t n)
{
	FAILS(getcwd, NULL, b, n);
}
int dl_iterate_phdr(int (*f)(struct dl_phdr_info *, size_t, void *), void *x)
{
	FAILS(dl_iterate_phdr, -1, f, x);
}
int on_exit(void (*f)(int, void *), void *x)
{
	FAILS(on_exit, -1, f, x);
}
ssize_t readlink(const char *p, char *b, size_t n)
{
	FAILS(readlink, -1, p, b, n);
}
