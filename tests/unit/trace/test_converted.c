/* A file of another tool is converted once, until it changes. */
#include "fixture.h"
#include "trace/converted.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

static void write_profile(const char *path, int bytes_of_block)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fprintf(f,
		"{\"traceEvents\":[{\"cat\":\"x\",\"name\":\"[memory]\",\"tid\":1,\"ts\":1,\"args\":"
		"{\"Device Type\":1,\"Device Id\":0,\"Addr\":4096,\"Bytes\":%d,"
		"\"Total Allocated\":%d,\"Total Reserved\":5}}]}",
		bytes_of_block, bytes_of_block);
	fclose(f);
}

static uint64_t peak_of(const char *path, const struct converted **converted)
{
	struct err e = { 0 };
	struct trace t;
	uint64_t peak;

	assert_int_equal(trace_open_header(&t, path, &e), 0);
	peak = t.header.device[0].allocated_peak;
	*converted = t.converted;
	trace_release(&t);
	return peak;
}

static void set_time(const char *path, long seconds)
{
	const struct timespec times[2] = { { 0 }, { .tv_sec = seconds } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void a_file_is_converted_until_it_changes(void **state)
{
	struct fixture *f = *state;
	const struct converted *first, *again, *changed;
	char path[128];
	struct err e = { 0 };
	struct trace open;

	snprintf(path, sizeof(path), "%s/profile.json", f->directory);
	write_profile(path, 100);
	set_time(path, 1);
	assert_int_equal(peak_of(path, &first), 100);
	assert_int_equal(peak_of(path, &again), 100);
	assert_ptr_equal(first, again);
	/* As long as before, and a second younger. */
	assert_int_equal(trace_open_header(&open, path, &e), 0);
	write_profile(path, 200);
	set_time(path, 2);
	assert_int_equal(peak_of(path, &changed), 200);
	assert_ptr_not_equal(first, changed);
	assert_int_equal(trace_load(&open, &e), 0); /* what is open stays */
	assert_int_equal(open.header.device[0].allocated_peak, 100);
	trace_release(&open);
	unlink(path);
}

static struct converted *add(ino_t file, uint64_t size)
{
	return converted_add(&(struct stat){ .st_ino = file }, xcalloc(1, 16), size, "a file");
}

static int is_kept(ino_t file)
{
	struct converted *c = converted_find(&(struct stat){ .st_ino = file });

	converted_release(c);
	return c != NULL;
}

/* 512 MiB of the newest are kept, or one that is larger. What is in use stays. */
static void the_newest_are_kept(void **state)
{
	struct converted *used;

	(void)state;
	converted_release(add(1, 300 * MIB));
	used = add(2, 200 * MIB);
	assert_true(is_kept(1) && is_kept(2));
	converted_release(add(3, 100 * MIB));
	assert_true(!is_kept(1) && is_kept(2) && is_kept(3));
	converted_release(add(4, GIB));
	assert_true(!is_kept(2) && !is_kept(3) && is_kept(4));
	assert_int_equal(used->bytes[15], 0);
	converted_release(used);
	converted_release(NULL);
}

/* Returns NULL if what it got was right each time. */
static void *use(void *context)
{
	char *wrong = NULL;

	for (unsigned i = 0; i < 2000; i++) {
		const struct stat of = { .st_ino = 10 + i % 7 };
		struct converted *c = converted_find(&of);

		if (!c)
			c = add(of.st_ino, 100 * MIB);
		if (c->bytes[0])
			wrong = context;
		converted_release(c);
	}
	return wrong;
}

static void threads_share_what_is_kept(void **state)
{
	pthread_t threads[4];
	void *wrong;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, threads), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_is_converted_until_it_changes,
						fixture_setup_directory, fixture_teardown),
		cmocka_unit_test(the_newest_are_kept),
		cmocka_unit_test(threads_share_what_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
