#include "cmd/command.h"

#include "render/page.h"
#include "util/buf.h"
#include "util/shell.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int command_fail(int status, const struct err *e)
{
	err_print("%s", e->text);
	return status;
}

static void print_options(const struct opt_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct opt *o = &set->rows[i];
		char left[128], letter[8] = "    ";

		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
			 o->argument ? o->argument : "");
		printf("  %-32s %s\n", left, o->help);
	}
	printf("  %-32s %s\n", "-h, --help", "show this");
}

static void print_help(const struct command *c)
{
	printf("usage: memtrace %s%s%s\n\n%s\n\n", c->name, *c->usage ? " " : "", c->usage,
	       c->about);
	print_options(&c->options);
	if (c->more_help)
		c->more_help();
}

int command_main(const struct command *c, int argc, char **argv)
{
	struct opt_set set = c->options;
	struct err e = { 0 };
	int n = opt_parse(&set, argc, argv, &e), status = STATUS_SUCCESS;

	if (set.wants_help)
		print_help(c);
	else if (n < 0)
		status = command_fail(STATUS_USAGE, &e);
	else
		status = c->run(argv + 1, (size_t)n);
	opt_set_release(&set);
	return status;
}

int command_print(const char *text, size_t length)
{
	struct buf page = { 0 };
	struct err e = { 0 };
	int is_written;

	buf_add_page(&page, (struct str){ text, length });
	is_written = fwrite(page.length ? page.text : "", 1, page.length, stdout) == page.length &&
		     !fflush(stdout);
	if (!is_written)
		err_set(&e, "cannot write the result: %s", strerror(errno));
	buf_release(&page);
	return is_written ? STATUS_SUCCESS : command_fail(STATUS_INTERNAL, &e);
}

void command_add_page(struct buf *out, const struct buf *options, char *const *arguments,
		      size_t count)
{
	buf_addf(out, "\n%-*smemtrace html", PAGE_INDENT, "next");
	if (options->length)
		buf_add(out, options->text, options->length);
	for (size_t i = 0; i < count; i++) {
		buf_puts(out, " ");
		shell_add_word(out, (struct str){ arguments[i], strlen(arguments[i]) });
	}
	buf_puts(out, "\n");
}
