#define _GNU_SOURCE
#include "record/spawn.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/mapping.h"
#include "record/descriptors.h"
#include "record/thread.h"
#include "symbols/resolve.h"

#define STACK_BYTES (32u << 10)
#define SMALLEST (4u << 20)

enum { MAKING = 1, MAPPED, NOT_MADE, NOT_EXECUTED };

/* The data of the children. The children share this memory and this thread's errno, so they call no
 * function of the C library. */
static struct {
	size_t bytes;
	void *memory;
	_Atomic int stage;
	int error;
	int alive; /* the kernel stores 0 when the second child ends or executes the program */
	const char *program;
	unsigned most_descriptors;
	char path[4096];
	char stack[2][STACK_BYTES] __attribute__((aligned(64)));
} spawn;

void writer_start(void);

/* A system call that does not change errno. Returns the result or -errno. */
static long call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
			 x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e,
			 x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
	(void)number, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
	return -ENOSYS;
#endif
}

/* Closes every descriptor of this child's table but the memfd: no file of the job may stay open
 * because of this child. */
static void close_the_rest(void)
{
	call(SYS_close, 0, 0, 0, 0, 0, 0);
	call(SYS_close, 1, 0, 0, 0, 0, 0);
	call(SYS_close, 2, 0, 0, 0, 0, 0);
	if (call(SYS_close_range, SPAWN_MEMORY_FD + 1, ~0u, 0, 0, 0, 0) == 0)
		return;
	for (unsigned i = SPAWN_MEMORY_FD + 1; i < spawn.most_descriptors; i++)
		call(SYS_close, (long)i, 0, 0, 0, 0, 0);
}

static void set_stage(int stage, long error)
{
	spawn.error = (int)error;
	atomic_store(&spawn.stage, stage);
}

/* Makes the memfd in a full copy of the job's table, before Linux 5.9. If the job has no number
 * left, the child closes standard input, which it can because the table is a copy. */
static long make_descriptor_in_copy(void)
{
	long fd = call(SYS_unshare, CLONE_FILES, 0, 0, 0, 0, 0);

	if (fd == 0)
		fd = call(SYS_memfd_create, (long)"memtrace", 0, 0, 0, 0, 0);
	if (fd == -EMFILE) {
		call(SYS_close, 0, 0, 0, 0, 0, 0);
		fd = call(SYS_memfd_create, (long)"memtrace", 0, 0, 0, 0, 0);
	}
	return fd;
}

/*
 * Makes the memfd in a table of this child, which is empty: a copy of the job's descriptors,
 * however short its life, keeps the job's ports and locks in use after the job has closed them. The
 * first number of an empty table is 0. With another number, the table is the job's: a filter of
 * system calls answered in the kernel's place.
 */
static long make_descriptor(void)
{
	long fd;

	if (call(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0, 0, 0) != 0)
		return make_descriptor_in_copy();
	fd = call(SYS_memfd_create, (long)"memtrace", 0, 0, 0, 0, 0);
	if (fd > 0) {
		call(SYS_close, fd, 0, 0, 0, 0, 0);
		return -EPERM;
	}
	return fd;
}

/* Maps the memfd. A mapping of one page becomes one of all bytes (base/mapping.h). */
static long map_descriptor(long fd)
{
	long page = call(SYS_mmap, 0, MAPPING_PAGE, MAPPING_ACCESS, MAP_SHARED | MAP_NORESERVE, fd,
			 0),
	     address;

	if (page < 0 && page > -4096)
		return page;
	call(SYS_munlock, page, MAPPING_PAGE, 0, 0, 0, 0);
	address = call(SYS_mremap, page, MAPPING_PAGE, (long)spawn.bytes, MREMAP_MAYMOVE, 0, 0);
	if (address >= 0 || address <= -4096)
		return address;
	call(SYS_munmap, page, MAPPING_PAGE, 0, 0, 0, 0);
	return address == -ENOMEM ? address
				  : call(SYS_mmap, 0, (long)spawn.bytes, MAPPING_ACCESS,
					 MAP_SHARED | MAP_NORESERVE, fd, 0);
}

/* The second child. It makes the memory first: each later call may wait for a file system. */
static int in_child(void *unused)
{
	static char *const arguments[] = { (char *)(uintptr_t) "memtrace-writer", NULL },
			   *const environment[] = { NULL };
	long fd = make_descriptor(), address = 0, e;

	(void)unused;
	e = fd < 0 ? fd : call(SYS_ftruncate, fd, (long)spawn.bytes, 0, 0, 0, 0);
	while (e == 0) {
		address = map_descriptor(fd);
		if (address != -ENOMEM || spawn.bytes <= SMALLEST)
			break;
		spawn.bytes /= 2;
		e = call(SYS_ftruncate, fd, (long)spawn.bytes, 0, 0, 0, 0);
	}
	if (e < 0 || (address < 0 && address > -4096)) {
		set_stage(NOT_MADE, e < 0 ? -e : -address);
		return 1;
	}
	spawn.memory = (void *)(uintptr_t)address;
	set_stage(MAPPED, 0);
	call(SYS_setsid, 0, 0, 0, 0, 0, 0);
	if (fd != SPAWN_MEMORY_FD)
		call(SYS_dup3, fd, SPAWN_MEMORY_FD, 0, 0, 0, 0);
	close_the_rest();
	e = call(SYS_execve, (long)spawn.program, (long)arguments, (long)environment, 0, 0, 0);
	set_stage(NOT_EXECUTED, -e);
	return 1;
}

/* The first child ends at once, so that the second is not a child of the job. */
static int in_first_child(void *unused)
{
	const uint64_t all = ~0ull;
	long pid;

	/* No signal handler of the job may run in a child, not even that of SIGSYS. */
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all), 0, 0);
	pid = spawn_clone(in_child, spawn.stack[1] + STACK_BYTES,
			  CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID | SIGCHLD, unused,
			  &spawn.alive);

	if (pid < 0)
		set_stage(NOT_MADE, -pid);
	return 0;
}

static void *finish(size_t *got)
{
	if (!spawn.memory)
		return NULL;
	madvise(spawn.memory, spawn.bytes,
		MADV_DONTFORK); /* no forked child can write to this memory */
	madvise(spawn.memory, spawn.bytes, MADV_DONTDUMP);
	*got = spawn.bytes;
	return spawn.memory;
}

/* RLIMIT_FSIZE also limits a memfd. */
static size_t allowed(size_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
		bytes = (size_t)limit.rlim_cur & ~(size_t)4095;
	return bytes;
}

static void start_children(void)
{
	uint64_t blocked = THREAD_BLOCKS, old;
	long pid;
	int status;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &old, sizeof(blocked));
	spawn.alive = 1;
	pid = spawn_clone(in_first_child, spawn.stack[0] + STACK_BYTES, CLONE_VM | CLONE_FILES,
			  NULL, NULL);
	if (pid < 0)
		set_stage(NOT_MADE, -pid);
	else
		while (syscall(SYS_wait4, pid, &status, __WALL, NULL) < 0 && errno == EINTR)
			;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

/* Would the writer become a child of this process when its parent ends? A wait() of the job would
 * then find the writer. */
static int would_be_ours_to_wait_for(void)
{
	int subreaper = 0;

	return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper);
}

/* Does the next child of this process begin a process namespace (unshare(CLONE_NEWPID))? When that
 * child ends, so does the namespace, and the job could make no child any more. Of a namespace that
 * has no process yet, the kernel tells no name. */
static int child_would_begin_namespace(void)
{
	char own[64], of_children[64];
	ssize_t n = readlink("/proc/self/ns/pid", own, sizeof(own));

	return n > 0 &&
	       (readlink("/proc/self/ns/pid_for_children", of_children, sizeof(of_children)) != n ||
		memcmp(own, of_children, (size_t)n) != 0);
}

/* 0 also under a sanitizer, which cannot follow the children. */
static int may_have_children(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0;
#endif
	return !would_be_ours_to_wait_for() && !child_would_begin_namespace();
}

void *spawn_writer(size_t bytes, size_t *got)
{
	uint64_t start = now_ns();
	struct rlimit limit;

	if (!may_have_children()) {
		errno = ECHILD;
		return NULL;
	}
	if (!resolve_module((const void *)(uintptr_t)writer_start, spawn.path,
			    sizeof(spawn.path)) ||
	    !*spawn.path) {
		errno = ENOENT;
		return NULL;
	}
	spawn.program = spawn.path;
	spawn.bytes = allowed(bytes);
	spawn.memory = NULL;
	spawn.most_descriptors = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1u << 20
					 ? (unsigned)limit.rlim_cur
					 : 1u << 20;
	atomic_store(&spawn.stage, MAKING);
	start_children();
	while (atomic_load(&spawn.stage) == MAKING && now_ns() - start < LOCK_MS(2000)) {
		if (!__atomic_load_n(&spawn.alive, __ATOMIC_ACQUIRE) &&
		    atomic_load(&spawn.stage) == MAKING) {
			set_stage(NOT_MADE, EPERM); /* killed by a filter of system calls */
			break;
		}
		lock_pause();
	}
	if (atomic_load(&spawn.stage) == MAKING || atomic_load(&spawn.stage) == NOT_MADE) {
		errno = spawn.error ? spawn.error : ETIMEDOUT;
		return NULL;
	}
	return finish(got);
}

int spawn_failed(void)
{
	return atomic_load(&spawn.stage) == NOT_EXECUTED;
}

void *spawn_memory_only(size_t bytes, size_t *got)
{
	for (spawn.bytes = bytes;; spawn.bytes /= 2) {
		spawn.memory = mapping_shared(spawn.bytes);
		if (spawn.memory)
			return finish(got);
		if (spawn.bytes <= SMALLEST)
			return NULL;
	}
}

/* The loader of this library when it is executed as a program. */
#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif
#ifdef LOADER
extern const char spawn_loader[];
const char spawn_loader[] __attribute__((section(".interp"), used)) = LOADER;
#endif
