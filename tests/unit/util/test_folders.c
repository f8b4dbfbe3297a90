/* Folders above a file: those that are missing are made, and one that cannot be made is named. */
#define _GNU_SOURCE /* mkdtemp */
#include "util/folders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "util/util.h"

static char root[] = "/tmp/memtrace-folders-XXXXXX";

/* The type and the permissions of a path below the root; 0: there is none. */
static unsigned mode_of(const char *name)
{
	char *path = xasprintf("%s/%s", root, name);
	struct stat st = { 0 };
	unsigned mode = stat(path, &st) < 0 ? 0 : st.st_mode;

	free(path);
	return mode;
}

static int make(const char *name, mode_t mode, struct err *e)
{
	char *path = xasprintf("%s/%s", root, name);
	int status = folders_make(path, mode, e);

	free(path);
	return status;
}

static void the_file_itself_is_not_made(void **state)
{
	struct err e = { "" };

	(void)state;
	assert_int_equal(make("a/b//c/file", 0700, &e), 0);
	assert_int_equal(mode_of("a"), S_IFDIR | 0700);
	assert_int_equal(mode_of("a/b/c"), S_IFDIR | 0700);
	assert_int_equal(mode_of("a/b/c/file"), 0);
	/* They stay as they are. */
	assert_int_equal(make("a/b/d/file", 0750, &e), 0);
	assert_int_equal(mode_of("a/b"), S_IFDIR | 0700);
	assert_int_equal(mode_of("a/b/d"), S_IFDIR | 0750);
	assert_string_equal(e.text, "");
	assert_int_equal(folders_make("file", 0700, &e), 0);
	assert_int_equal(folders_make("", 0700, &e), 0);
}

static void a_file_in_the_way_is_named(void **state)
{
	char *path = xasprintf("%s/way", root), *said = xasprintf("the folder %s/way:", root);
	struct err e = { "" };
	FILE *f = fopen(path, "w");

	(void)state;
	assert_non_null(f);
	fclose(f);
	assert_int_equal(make("way/b/file", 0700, &e), -1);
	assert_non_null(strstr(e.text, said));
	assert_int_equal(mode_of("way") & S_IFMT, S_IFREG);
	free(path);
	free(said);
}

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char *command = xasprintf("rm -r %s", root);
	int status = system(command);

	(void)state;
	free(command);
	return status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_itself_is_not_made),
		cmocka_unit_test(a_file_in_the_way_is_named),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
