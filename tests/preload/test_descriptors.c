/* Work in a descriptor table of its own, in a child that was forked meanwhile. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"
#include "record/descriptors.h"

static atomic_int begun, may_end;

static void stall(void *unused)
{
	(void)unused;
	atomic_store(&begun, 1);
	while (!atomic_load(&may_end))
		lock_pause();
}

static void *call_apart(void *unused)
{
	(void)descriptors_call_apart(stall, NULL);
	return unused;
}

static void nothing(void *called)
{
	*(int *)called = 1;
}

/* A thread reads a file while another forks: the child, which has not that thread, has a table of
 * its own for its files as soon as its recording begins. */
static void test_forked(void **state)
{
	pthread_t thread;
	int status;
	pid_t child;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* there is no such thread under a sanitizer */
#endif
	assert_int_equal(pthread_create(&thread, NULL, call_apart, NULL), 0);
	while (!atomic_load(&begun))
		usleep(1000);
	child = fork();
	if (child == 0) {
		int called = 0, held = !descriptors_call_apart(nothing, &called);

		descriptors_forget();
		_exit(!held ? 1 : !descriptors_call_apart(nothing, &called) || !called ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	atomic_store(&may_end, 1);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
