/* What a page leaves out. */
#include "html/redact.h"
#include "fixture.h"
#include "html/html.h"

#include <unistd.h>

static void expect(const char *text, const char *redacted)
{
	struct redaction nothing = { 0 };
	struct buf b = { 0 };

	buf_puts(&b, text);
	redact(&nothing, &b);
	assert_string_equal(b.text, redacted);
	buf_release(&b);
}

static void directories_are_left_out(void **state)
{
	(void)state;
	expect("run (/home/joe/a.py:3) --k=../x/b /c/d", "run (a.py:3) --k=b d");
	expect("a/b ~/c/d=/e/f", "b f");
	expect("=~=~/x=/y", "=y");
	expect("gcc -I/home/joe/x -L../lib -DA=/b/c -O2", "gcc -Ix -L..lib -DA=c -O2");
	expect("s3://bucket/x file:///home/joe/y", "s3:x file:y");
}

static void relative_paths_are_left_out(void **state)
{
	(void)state;
	expect("memtrace html customer/secret/rank0.mtr", "memtrace html rank0.mtr");
	expect("from a/b to (c\\d.py:3), 'e/f/'", "from b to (d.py:3), ''");
	expect("--data=corpus/x key=a/b.json y/k=v/z", "--data=x key=b.json k=z");
	/* No paths. */
	expect("3/4 of 1.5/2, the key/value heads", "3/4 of 1.5/2, the key/value heads");
	expect("my-key/value", "value");
}

static void names_of_the_job_are_kept(void **state)
{
	struct named_row named = { .name = "train/forward" };
	struct moment_row moments[] = { { .name = "/top/x" }, { .name = "epoch 3/eval" } };
	struct rank rank = { .trace = (char[]){ "my dir/a/r.mtr" },
			     .named = &named,
			     .named_count = 1,
			     .moments = moments,
			     .moment_count = 2 };
	const struct report r = { .ranks = &rank, .count = 1 };
	struct redaction hide = { 0 };
	struct buf b = { 0 };

	(void)state;
	redaction_of(&hide, &r);
	buf_puts(&b, "in train/forward: train/forwards, my dir/a/r.mtr, /top/x; epoch 3/eval 3/x");
	redact(&hide, &b);
	assert_string_equal(b.text, "in train/forward: forwards, r.mtr, x; epoch 3/eval x");
	buf_release(&b);
	redaction_release(&hide);
}

static void expect_of(void (*function)(const struct redaction *, struct buf *), const char *text,
		      const char *redacted)
{
	struct redaction nothing = { 0 };
	struct buf b = { 0 };

	buf_puts(&b, text);
	function(&nothing, &b);
	assert_string_equal(b.text, redacted);
	buf_release(&b);
}

static void of_a_path_the_name_is_left(void **state)
{
	(void)state;
	expect_of(redact_path, "my dir/to it/rank 0.mtr", "rank 0.mtr");
	expect_of(redact_path, "rank0.mtr", "rank0.mtr");
	expect_of(redact_path, "c:\\a b\\x.py", "x.py");
	expect_of(redact_stack, "main my src/a b.py:1;<lambda> x/y.py:22;f z.py:3;... ",
		  "main a b.py:1;<lambda> y.py:22;f z.py:3;... ");
	expect_of(redact_stack, "a/b;", "b;");
	expect_of(redact_stack, "f a/b.py:1;", "f b.py:1;");
}

static void names_with_spaces_are_left_out(void **state)
{
	(void)state;
	expect("main /home/my user/big data/a.py:3;next", "main a.py:3;next");
	expect("/a b/c.py", "c.py");
	expect("copied /a/b to /c/d", "copied b to d");
	expect("/a/b is 3 MiB", "b is 3 MiB");
	expect("x /a/b\nc/d", "x b\nd");
}

static void paths_of_windows_are_left_out(void **state)
{
	(void)state;
	expect("C:\\Users\\Joe Doe\\job\\train.py:7", "train.py:7");
	expect("run \"d:/jobs/x.py\" \\\\server\\share\\y", "run \"x.py\" y");
	expect("step 2: /x", "step 2: x");
}

static void expect_names(const char *paths, const char *text, const char *redacted)
{
	struct redaction hide = { 0 };
	struct buf b = { 0 };

	redaction_learn(&hide, paths, strlen(paths));
	buf_puts(&b, text);
	redact(&hide, &b);
	assert_string_equal(b.text, redacted);
	buf_release(&b);
	redaction_release(&hide);
}

static void names_of_users_are_left_out(void **state)
{
	(void)state;
	expect_names("{\"/home/joe/x\"}", "joe, joes, joe_run, banjoe",
		     "(redacted), joes, (redacted)_run, banjoe");
	expect_names("C:\\\\Users\\\\Joe Doe\\\\x", "Joe Doe's", "(redacted)'s");
	expect_names("/Users/ann/x /home/user/y /home/", "ann user", "(redacted) user");
}

/* Each "~" begins a path, and the last of them would be looked at again and again. */
static void a_long_text_takes_linear_time(void **state)
{
	struct redaction nothing = { 0 };
	struct buf b = { 0 };

	(void)state;
	for (int i = 0; i < 300000; i++)
		buf_puts(&b, "=~");
	alarm(20);
	redact(&nothing, &b);
	alarm(0);
	assert_int_equal(b.length, 600000);
	buf_release(&b);
}

/* In the report's text a long command is wrapped, so that no search finds it. */
static void a_command_of_several_lines_is_left_out(void **state)
{
	struct fixture *f = *state;
	const struct html_options o = { .redact = 1 };
	struct buf command = { 0 };
	struct err e = { 0 };
	char path[128];

	for (int i = 0; i < 20; i++)
		buf_puts(&command, i ? " --password hunter2" : "python");
	fixture_event(f, MT_TENSOR_ALLOC, 0x1000, 100, NONE);
	snprintf(path, sizeof(path), "%s/a.mtr", f->directory);
	assert_int_equal(write_save(&f->w, path), 0);
	fixture_report(f);
	f->report.ranks[0].command = command.text;
	f->report.ranks[0].trace = path;
	assert_int_equal(html_page(&f->report, &o, &f->out, &e), 0);
	assert_non_null(strstr(f->out.text, "(redacted)"));
	assert_null(strstr(f->out.text, "hunter2"));
	buf_release(&command);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directories_are_left_out),
		cmocka_unit_test(relative_paths_are_left_out),
		cmocka_unit_test(names_of_the_job_are_kept),
		cmocka_unit_test(of_a_path_the_name_is_left),
		cmocka_unit_test(names_with_spaces_are_left_out),
		cmocka_unit_test(paths_of_windows_are_left_out),
		cmocka_unit_test(names_of_users_are_left_out),
		cmocka_unit_test(a_long_text_takes_linear_time),
		cmocka_unit_test_setup_teardown(a_command_of_several_lines_is_left_out,
						fixture_setup_directory, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
