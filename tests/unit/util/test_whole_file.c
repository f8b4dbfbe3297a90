/* Files that are written whole or not at all. */
#define _GNU_SOURCE /* mkdtemp */
#include "util/whole_file.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "util/util.h"

static char folder[] = "/tmp/memtrace-whole-XXXXXX", *path;

static int make_folder(void **state)
{
	(void)state;
	path = mkdtemp(folder) ? xasprintf("%s/page.html", folder) : NULL;
	return path ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	free(path);
	return rmdir(folder);
}

static int files(void)
{
	DIR *d = opendir(folder);
	int count = 0;

	while (readdir(d))
		count++;
	closedir(d);
	return count - 2; /* . and .. */
}

static void write_whole(const char *text)
{
	struct whole_file w;
	struct err e = { 0 };

	assert_int_equal(whole_file_begin(&w, path, 0, &e), 0);
	fputs(text, w.file);
	assert_int_equal(whole_file_end(&w, 0, &e), 0);
}

static void expect(const char *text)
{
	char found[64] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_non_null(fgets(found, sizeof(found), f));
	fclose(f);
	assert_string_equal(found, text);
}

static void a_file_appears_when_it_is_complete(void **state)
{
	struct whole_file w;
	struct err e = { 0 };

	(void)state;
	write_whole("first");
	assert_int_equal(whole_file_begin(&w, path, 0, &e), 0);
	fputs("second", w.file);
	fflush(w.file);
	expect("first");
	assert_int_equal(whole_file_end(&w, 0, &e), 0);
	expect("second");
	assert_int_equal(files(), 1);
}

static void what_failed_leaves_the_old_file(void **state)
{
	struct whole_file w;
	struct err e = { 0 };

	(void)state;
	write_whole("old");
	assert_int_equal(whole_file_begin(&w, path, 0, &e), 0);
	fputs("new", w.file);
	assert_int_equal(whole_file_end(&w, 1, &e), -1);
	expect("old");
	assert_int_equal(files(), 1);
	assert_int_equal(whole_file_begin(&w, "/nowhere/x", 0, &e), -1);
	assert_non_null(strstr(e.text, "cannot write /nowhere/x"));
}

/* A child that begins a file and is killed, or lives on if `until` is read. */
static pid_t writer(int until)
{
	int ready[2];
	char byte = 0;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		struct whole_file w;
		struct err e = { 0 };

		whole_file_begin(&w, path, 0, &e);
		if (write(ready[1], &byte, 1) == 1 && until >= 0)
			byte = (char)read(until, &byte, 1);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void what_a_killed_writer_left_is_removed(void **state)
{
	(void)state;
	write_whole("old");
	waitpid(writer(-1), NULL, 0);
	assert_int_equal(files(), 2);
	write_whole("new");
	assert_int_equal(files(), 1);
	expect("new");
}

static void what_another_writer_writes_is_not(void **state)
{
	int until[2];
	pid_t child;

	(void)state;
	write_whole("old");
	assert_int_equal(pipe(until), 0);
	child = writer(until[0]);
	write_whole("new");
	assert_int_equal(files(), 2);
	assert_int_equal(write(until[1], "", 1), 1);
	waitpid(child, NULL, 0);
	write_whole("newer");
	assert_int_equal(files(), 1);
}

static void touch(const char *name)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	fclose(f);
}

/* Nobody has a lock on them that is seen here. */
static void files_of_others_stay(void **state)
{
	char host[65] = "";
	char *dated = xasprintf("%s.20240101.tmp", path),
	     *elsewhere = xasprintf("%s.memtrace-another-host-17.tmp", path), *here;

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	here = xasprintf("%s.memtrace-%s-999999999.tmp", path, host);
	touch(dated);
	touch(elsewhere);
	touch(here);
	write_whole("new");
	assert_int_equal(unlink(dated), 0);
	assert_int_equal(unlink(elsewhere), 0);
	assert_int_equal(unlink(here), -1);
	free(dated);
	free(elsewhere);
	free(here);
}

static void a_device_is_written_and_kept(void **state)
{
	struct whole_file w;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(whole_file_begin(&w, "/dev/null", 0, &e), 0);
	assert_null(w.temporary);
	assert_int_equal(whole_file_end(&w, 0, &e), 0);
	assert_int_equal(whole_file_begin(&w, "/dev/null", 1, &e), -1);
	assert_string_equal(e.text, "cannot write /dev/null: not a file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_appears_when_it_is_complete),
		cmocka_unit_test(what_failed_leaves_the_old_file),
		cmocka_unit_test(what_a_killed_writer_left_is_removed),
		cmocka_unit_test(what_another_writer_writes_is_not),
		cmocka_unit_test(files_of_others_stay),
		cmocka_unit_test(a_device_is_written_and_kept),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
