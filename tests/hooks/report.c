/* Programs without PyTorch that report blocks as its caching allocator does. report CASE
 * [ARGUMENT...] */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct device {
	int8_t type, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *pointer, int64_t bytes,
							   size_t allocated, size_t reserved,
							   struct device device)
	__attribute__((weak));

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void block(uint64_t address, int64_t bytes, uint64_t allocated)
{
	struct device first = { 1, 0 };

	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)(uintptr_t)address, bytes,
							      allocated, 1u << 30, first);
}

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, size_t allocated,
							 size_t reserved, struct device device)
	__attribute__((weak));

static long resident_kib(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * 4;
}

/*
 * EVENTS blocks of random sizes replace each other among LIVE, with a ms of rest after each ten
 * thousand; a failure for lack of memory at each tenth of the way. Prints ns an event and resident
 * KiB of each tenth, and the truth.
 */
static int soak(uint64_t events, unsigned live)
{
	struct device first = { 1, 0 };
	int64_t *size = calloc(live, sizeof(*size));
	uint64_t random = 1, allocated = 0, peak = 0, began, spent = 0, in_tenth = 0;

	printf("{\"tenths\": [");
	for (uint64_t i = 0; i < events && size;) {
		began = now_ns();
		for (unsigned k = 0; k < 10000 && i < events; k++, i++, in_tenth++) {
			unsigned at = (random = random * 6364136223846793005u +
						1442695040888963407u) >>
				      33,
				 slot = at % live;
			uint64_t address = 0x10000000 + (uint64_t)slot * 0x10000000;

			if (size[slot]) {
				allocated -= (uint64_t)size[slot];
				block(address, -size[slot], allocated);
				size[slot] = 0;
			} else {
				size[slot] = 512 * (1 + (int64_t)(random >> 40) % 4096);
				allocated += (uint64_t)size[slot];
				block(address, size[slot], allocated);
				peak = allocated > peak ? allocated : peak;
			}
		}
		spent += now_ns() - began;
		usleep(1000);
		if (i % (events / 10) < 10000 && i >= events / 10) {
			_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(1ll << 40, allocated,
									    1u << 30, first);
			printf("%s[%.1f, %ld]", i < events / 10 * 2 ? "" : ", ",
			       (double)spent / (double)in_tenth, resident_kib());
			spent = in_tenth = 0;
		}
	}
	printf("], \"peak\": %llu, \"final\": %llu}\n", (unsigned long long)peak,
	       (unsigned long long)allocated);
	free(size);
	return 0;
}

/* N blocks come and go; one stays. */
static void blocks(uint64_t n)
{
	block(0x1000, 1 << 20, 1 << 20);
	for (uint64_t i = 0; i < n; i++) {
		block(0x200000 + (i & 1023) * 0x1000, 512, (1 << 20) + 512);
		block(0x200000 + (i & 1023) * 0x1000, -512, 1 << 20);
	}
}

/* The longest event of SECONDS, in ns, of 40 in each millisecond. */
static int latency(double seconds)
{
	uint64_t start = now_ns(), longest = 0, n = 0;

	while (now_ns() - start < (uint64_t)(seconds * 1e9)) {
		for (int k = 0; k < 20; k++, n++) {
			uint64_t a = 0x200000 + (n & 1023) * 0x1000, before = now_ns(), took;

			block(a, 512, 512);
			took = now_ns() - before;
			longest = took > longest ? took : longest;
			block(a, -512, 0);
		}
		usleep(1000);
	}
	printf("%llu %llu\n", (unsigned long long)(2 * n), (unsigned long long)longest);
	return 0;
}

/* Children that run no handler of fork() free what they inherited. */
static int raw_children(void)
{
	block(0x1000, 1 << 20, 1 << 20);
	for (int how = 0; how < 2; how++) {
		pid_t pid = how ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
		int status = 0;

		if (!pid) {
			block(0x1000, -(1 << 20), 0);
			block(0x2000, 1 << 20, 1 << 20);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		printf("%x\n", status);
	}
	block(0x1000, -(1 << 20), 0);
	return 0;
}

static int returned;

static void *cancelled(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	block(0x1000, 1 << 20, 1 << 20);
	returned = 1;
	pthread_testcancel();
	return NULL;
}

static int cancel(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, cancelled, NULL);
	pthread_join(thread, NULL);
	block(0x2000, 1 << 20, 2 << 20);
	printf("%d\n", returned);
	return 0;
}

static void *small_stack(void *unused)
{
	(void)unused;
	block(0x1000, 1 << 20, 1 << 20);
	return NULL;
}

/* The first event comes on a thread with BYTES of stack. */
static int stack(size_t bytes)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, bytes);
	if (pthread_create(&thread, &attr, small_stack, NULL) != 0)
		return 2;
	pthread_join(thread, NULL);
	return 0;
}

static void *at_a_priority(void *unused)
{
	struct sched_param fifo = { .sched_priority = 1 };
	cpu_set_t first;

	(void)unused;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first) || sched_setscheduler(0, SCHED_FIFO, &fifo))
		return NULL;
	block(0x1000, 1 << 20, 1 << 20);
	puts("ready");
	return NULL;
}

/* The first event comes on a thread with a processor of its own and a real-time priority. Prints
 * "ready", or nothing where that is not allowed, and ends with its input. */
static int pinned(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, at_a_priority, NULL);
	pthread_join(thread, NULL);
	puts("");
	fflush(stdout);
	return getchar() != EOF;
}

/* Memory runs out when the input ends, and the program then ends at once. */
static int out_of_memory(void)
{
	struct device first = { 1, 0 };

	block(0x1000, 1 << 20, 1 << 20);
	while (getchar() != EOF)
		;
	_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(1ll << 40, 1 << 20, 1u << 30, first);
	return 0;
}

/* The next child is the first process of a namespace: prints the status of one that comes after the
 * first event. */
static int new_namespace(void)
{
	int status = 0;
	pid_t pid;

	if (unshare(CLONE_NEWPID) != 0)
		return 77;
	blocks(10);
	pid = fork();
	if (pid == 0)
		_exit(7);
	waitpid(pid, &status, 0);
	printf("%d\n", pid > 0 ? WEXITSTATUS(status) : -1);
	return 0;
}

static volatile int refusals;

static void refuse(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)number, (void)info;
	refusals++;
#if defined(__x86_64__)
	c->uc_mcontext.gregs[REG_RAX] = -EACCES;
#elif defined(__aarch64__)
	c->uc_mcontext.regs[0] = -EACCES;
#endif
}

/* A handler of SIGSYS answers the system call NUMBER, as in a sandbox. */
static int trapped(unsigned number)
{
	struct sigaction action = { .sa_sigaction = refuse, .sa_flags = SA_SIGINFO };
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	sigaction(SIGSYS, &action, NULL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return 2;
	blocks(1000);
	usleep(200000);
	printf("%d\n", refusals > 0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "0";

	if (!_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
		return 3;
	if (strcmp(what, "latency") == 0)
		return latency(atof(argument));
	if (strcmp(what, "raw_children") == 0)
		return raw_children();
	if (strcmp(what, "cancel") == 0)
		return cancel();
	if (strcmp(what, "stack") == 0)
		return stack((size_t)atol(argument));
	if (strcmp(what, "pinned") == 0)
		return pinned();
	if (strcmp(what, "out_of_memory") == 0)
		return out_of_memory();
	if (strcmp(what, "namespace") == 0)
		return new_namespace();
	if (strcmp(what, "trapped") == 0)
		return trapped((unsigned)atoi(argument));
	if (strcmp(what, "soak") == 0)
		return soak((uint64_t)atoll(argument), argc > 3 ? (unsigned)atol(argv[3]) : 2000);
	if (strcmp(what, "wait") == 0) {
		blocks(10);
		printf("%d\n", (int)waitpid(-1, NULL, 0)); /* -1: no children */
		return 0;
	}
	if (strcmp(what, "blocks") == 0) {
		blocks((uint64_t)atoll(argument));
		if (argc > 3 && strcmp(argv[3], "kill") == 0)
			raise(SIGKILL);
		return 0;
	}
	return 2;
}
