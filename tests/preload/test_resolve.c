/* The number of questions to the loader, and a forked child that asks it. The preload's
 * dl_iterate_phdr() is this program's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/cuda.h"
#include "hooks/real.h"
#include "base/lock.h"
#include "symbols/scope.h"

typedef int visitor(struct dl_phdr_info *o, size_t size, void *data);

static atomic_uint asked;
static atomic_int stall_at,
	stalled; /* the call of a thread that does not return while stall_at is its number */

int dl_iterate_phdr(visitor *visit, void *data)
{
	static int (*real)(visitor *, void *);
	static _Thread_local int call;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	atomic_fetch_add(&asked, 1);
	call++;
	while (atomic_load(&stall_at) == call) {
		atomic_store(&stalled, 1);
		usleep(1000);
	}
	return real(visit, data);
}

static unsigned asked_by_samples(unsigned samples)
{
	unsigned before = atomic_load(&asked);
	uint64_t free_bytes, total;

	for (unsigned i = 0; i < samples; i++)
		(void)cuda_memory(&free_bytes, &total);
	return atomic_load(&asked) - before;
}

/* Without a driver: the functions are looked for once, and again when a library was loaded. */
static void test_no_driver(void **state)
{
	unsigned all;
	void *other;

	(void)state;
	cuda_forget();
	all = asked_by_samples(1);
	assert_in_range(all, 2, 20);
	assert_int_equal(asked_by_samples(100), 100); /* was a library loaded? */
	other = dlopen("libyaml-0.so.2", RTLD_NOW);
	assert_non_null(other);
	assert_int_equal(asked_by_samples(1), all);
	assert_int_equal(asked_by_samples(100), 100);
}

/* The driver is loaded late: it is found, and nothing is asked any more. */
static void test_driver_comes(void **state)
{
	uint64_t free_bytes, total;
	int (*start)(unsigned);
	void *driver;

	(void)state;
	cuda_forget();
	assert_int_equal(cuda_memory(&free_bytes, &total), -1);
	driver = dlopen("build/libcudasim.so", RTLD_NOW);
	assert_non_null(driver);
	*(void **)&start = dlsym(driver, "cuInit");
	assert_non_null(start);
	assert_int_equal(start(0), 0);
	assert_int_equal(cuda_primary_is_gone(0), 1); /* it answers: no context was made */
	(void)asked_by_samples(1); /* the driver may load a library when it is first asked */
	assert_int_equal(asked_by_samples(100), 0);
}

static void *choose(void *unused)
{
	(void)unused;
	(void)scope_choose("cuMemAlloc_v2", (void *)choose);
	return NULL;
}

static uint64_t time_of_choice(void)
{
	uint64_t start = now_ns();

	choose(NULL);
	return now_ns() - start;
}

/* A thread holds the lock of a choice while another forks: the child waits for it no more than a
 * moment. */
static void test_forked(void **state)
{
	pthread_t thread;
	int status;
	pid_t child;

	(void)state;
	atomic_store(&stall_at, 2); /* the caller's library is asked for without the lock */
	assert_int_equal(pthread_create(&thread, NULL, choose, NULL), 0);
	while (!atomic_load(&stalled))
		usleep(1000);
	child = fork();
	if (child == 0) {
		uint64_t held;
		atomic_store(&stall_at, 0);
		held = time_of_choice();
		scope_forget();
		real_forget();
		_exit(held < LOCK_MS(100) ? 1 : time_of_choice() > LOCK_MS(50) ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	atomic_store(&stall_at, 0);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_driver),
		cmocka_unit_test(test_driver_comes),
		cmocka_unit_test(test_forked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
