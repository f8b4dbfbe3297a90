/* The text of a Python file: lines, statements, functions, loops, and which files are read. */
#include "fixture.h"

#include "source/python_file.h"
#include "source/python_names.h"

#include <fcntl.h>
#include <sys/stat.h>

#define PARSED(f, text) python_file_parse(&(f), text, sizeof(text) - 1)

static void assert_text(struct str text, const char *expected)
{
	assert_int_equal(text.length, strlen(expected));
	assert_memory_equal(text.at, expected, text.length);
}

static void comments_and_quotes_are_blanks(void **state)
{
	struct python_file f;

	(void)state;
	PARSED(f, "a = 'x)' # (\nb = \"\"\"(\n# c\n'\"\"\"; d = 1\ne = '\\'('\nf = 'open\ng = 2\n");
	assert_text(python_line(&f, 1), "a = '  '    ");
	assert_text(python_line(&f, 2), "b = \"   ");
	assert_text(python_line(&f, 4), "   \"; d = 1");
	assert_text(python_line(&f, 5), "e = '   '");
	assert_text(python_line(&f, 7), "g = 2"); /* what is open ends with the line */
	assert_text(python_raw(&f, python_line(&f, 1)), "a = 'x)' # (");
	python_file_release(&f);
}

static void a_statement_goes_on_within_brackets(void **state)
{
	struct python_file f;
	struct python_range r;

	(void)state;
	PARSED(f, "x = call(1,\n         [2,\n  3])\ny = 1 + \\\n  2\nz = 3");
	r = python_statement(&f, 2);
	assert_int_equal(r.first, 1);
	assert_int_equal(r.last, 3);
	r = python_statement(&f, 4);
	assert_int_equal(r.last, 5);
	assert_text(python_text(&f, python_statement(&f, 6)), "z = 3");
	assert_int_equal(python_indent(&f, 2), SIZE_MAX);
	assert_int_equal(python_statement(&f, 7).first, 0);
	assert_int_equal(python_statement(&f, 0).first, 0);
	assert_int_equal(python_line_at(&f, (size_t)(strchr(f.text, 'z') - f.text)), 6);
	python_file_release(&f);
}

static void functions_and_loops_end_with_their_indentation(void **state)
{
	struct python_file f;
	struct python_range r;

	(void)state;
	PARSED(f, "def a():\n"
		  "    for i in x:\n"
		  "        if i:\n"
		  "            b(i)\n"
		  "\n"
		  "        c(i)\n"
		  "    return 1\n"
		  "while True:\n"
		  "    d()\n");
	r = python_function(&f, 4);
	assert_int_equal(r.first, 1);
	assert_int_equal(r.last, 7);
	assert_int_equal(python_loop(&f, 4, &r), 2);
	assert_int_equal(r.first, 3);
	assert_int_equal(r.last, 6);
	assert_int_equal(python_loop(&f, 2, &r), 0);
	assert_int_equal(python_loop(&f, 7, &r), 0);
	assert_int_equal(python_function(&f, 9).first, 1); /* of no function: all lines */
	assert_int_equal(python_loop(&f, 9, &r), 8);
	python_file_release(&f);
}

static void assignments_have_targets(void **state)
{
	size_t at = 0;
	struct python_file f;

	(void)state;
	assert_text(python_target(WORD("a, b[i == 1] = f(c=1)")), "a, b[i == 1] ");
	assert_int_equal(python_target(WORD("f(c=1)")).length, 0);
	assert_int_equal(python_target(WORD("a == b")).length, 0);
	assert_text(python_target(WORD("a += b")), "a +");
	assert_int_equal(python_behind_bracket(WORD("f(a[1], (b)) + c"), 1), 12);
	assert_int_equal(python_behind_bracket(WORD("f(a"), 1), 3);
	PARSED(f, "use(opt)\nself.opt = A(x)\nopt2 = 1\nopt = B(y)\n");
	assert_text(python_assignment(&f, WORD("opt"), &at), "self.opt = A(x)\n");
	assert_text(python_assignment(&f, WORD("opt"), &at), "opt = B(y)\n");
	assert_int_equal(python_assignment(&f, WORD("opt"), &at).length, 0);
	python_file_release(&f);
}

static void values_go_from_name_to_name(void **state)
{
	struct python_names n = { 0 };
	struct python_file f;

	(void)state;
	PARSED(f, "a = start()\nb = a + 1\nc = other()\nlist.append(b)\n");
	python_names_add(&n, python_line(&f, 1));
	python_names_follow(&n, &f, 2, 5);
	assert_true(python_names_in(&n, WORD("b")));
	assert_true(python_names_in(&n, WORD("sum(list)")));
	assert_false(python_names_in(&n, WORD("c + ab")));
	assert_false(python_names_used(&n, WORD("a = 2")));
	python_file_release(&f);
}

/* A file of the test's folder, as an old or a new one. */
static void put(const struct fixture *fx, char *path, const char *name, const char *text, size_t n,
		int64_t changed)
{
	const struct timespec times[2] = { { .tv_sec = changed }, { .tv_sec = changed } };
	FILE *out;

	snprintf(path, 128, "%s/%s", fx->directory, name);
	out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, n, out), n);
	fclose(out);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int is_read(const char *path)
{
	struct python_files files = { .began_ns = UINT64_C(1000000000) * 1000 };
	int found = python_files_get(&files, (struct str){ path, strlen(path) }) != NULL;

	/* The second time it is known. */
	assert_int_equal(python_files_get(&files, (struct str){ path, strlen(path) }) != NULL,
			 found);
	assert_int_equal(files.count, 1);
	python_files_release(&files);
	return found;
}

static void only_what_the_job_ran_is_read(void **state)
{
	const struct fixture *fx = *state;
	const size_t large = (512 << 10) + 1;
	char path[128], *text = xcalloc(large, 1);

	memset(text, '\n', large);
	put(fx, path, "old.py", "a = 1\n", 6, 999);
	assert_true(is_read(path));
	put(fx, path, "new.py", "a = 1\n", 6, 1001); /* since the job began */
	assert_false(is_read(path));
	put(fx, path, "zero.py", "a\0b", 3, 999);
	assert_false(is_read(path));
	put(fx, path, "most.py", text, large - 1, 999);
	assert_true(is_read(path));
	put(fx, path, "large.py", text, large, 999);
	assert_false(is_read(path));
	snprintf(path, sizeof(path), "%s/fifo.py", fx->directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(is_read(path)); /* and nothing waits for a writer */
	assert_false(is_read(fx->directory));
	assert_false(is_read("old.py"));
	assert_false(is_read(""));
	free(text);
}

/* What no Python program is must not lead out of the text. */
static void any_text_can_be_asked(void **state)
{
	static const char *const texts[] = { "",    "\n",    "((((",      "))))",     "'''",
					     "\\",  "\"\\",  "def ",      "for x:",   "=",
					     "a =", "    b", "if 1:\n\t", "\r\n\r\n", "\xff\xfe(" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct python_file f;
		struct python_range body;

		python_file_parse(&f, texts[i], strlen(texts[i]));
		for (uint32_t line = 0; line <= f.line_count + 1; line++) {
			python_function(&f, line);
			python_loop(&f, line, &body);
			python_target(python_text(&f, python_statement(&f, line)));
		}
		python_behind_bracket(python_line(&f, 1), 0);
		python_file_release(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comments_and_quotes_are_blanks),
		cmocka_unit_test(a_statement_goes_on_within_brackets),
		cmocka_unit_test(functions_and_loops_end_with_their_indentation),
		cmocka_unit_test(assignments_have_targets),
		cmocka_unit_test(values_go_from_name_to_name),
		cmocka_unit_test_setup_teardown(only_what_the_job_ran_is_read,
						fixture_setup_directory, fixture_teardown),
		cmocka_unit_test(any_text_can_be_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
