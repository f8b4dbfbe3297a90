#define _GNU_SOURCE
#include "source/conditions.h"

#include "util/glob.h"

#include <string.h>

#define MOST_NAMES 4 /* that stand for one another: a cycle ends there */
#define MOST_FLAG 64 /* bytes */

static enum truth opposite(enum truth value)
{
	return value == IS_TRUE ? IS_FALSE : value == IS_FALSE ? IS_TRUE : IS_UNKNOWN;
}

static enum truth both(enum truth a, enum truth b)
{
	if (a == IS_FALSE || b == IS_FALSE)
		return IS_FALSE;
	return a == IS_TRUE ? b : a;
}

static int has_argument(const struct tables *t, struct str flag)
{
	struct str words = tables_argv(t);

	for (size_t begin = 0; begin < words.length;) {
		const char *end = memchr(words.at + begin, 0, words.length - begin);
		size_t length = end ? (size_t)(end - words.at) - begin : words.length - begin;

		if (length == flag.length && !memcmp(words.at + begin, flag.at, length))
			return 1;
		begin += length + 1;
	}
	return 0;
}

/* `"--flag" in sys.argv`, or not in it. */
static enum truth in_argv(const struct tables *t, const struct python_file *f, struct str condition)
{
	const char *end = condition.length && strchr("'\"", *condition.at)
				  ? memchr(condition.at + 1, *condition.at, condition.length - 1)
				  : NULL;
	struct str rest;
	enum truth found;
	size_t length;

	if (!end)
		return IS_UNKNOWN;
	length = (size_t)(end - condition.at);
	rest = python_trimmed(python_part(condition, length + 1, condition.length));
	found = has_argument(t, python_part(python_raw(f, condition), 1, length)) ? IS_TRUE
										  : IS_FALSE;
	if (str_matches(rest, "in sys.argv"))
		return found;
	return str_matches(rest, "not in sys.argv") ? opposite(found) : IS_UNKNOWN;
}

/* `args.name`, where argparse stores True for "--name". */
static enum truth of_argparse(const struct tables *t, const struct python_file *f, struct str name)
{
	struct str text = python_whole(f);
	char flag[MOST_FLAG] = "--";
	struct str of = { flag, name.length + 2 };

	if (of.length > sizeof(flag))
		return IS_UNKNOWN;
	for (int hyphens = 0; hyphens < 2; hyphens++) {
		memcpy(flag + 2, name.at, name.length);
		for (size_t i = 2; hyphens && i < of.length; i++)
			flag[i] = flag[i] == '_' ? '-' : flag[i];
		for (size_t at = 0;
		     (at = python_find_word(text, at, WORD("add_argument"))) < text.length; at++) {
			struct str call = python_part(
				text, at, python_behind_bracket(text, at + strlen("add_argument")));
			struct str raw = python_raw(f, call);

			if (memmem(raw.at, raw.length, "store_true", strlen("store_true")) &&
			    python_has_word(raw, of))
				return has_argument(t, of) ? IS_TRUE : IS_FALSE;
		}
	}
	return IS_UNKNOWN;
}

static enum truth value_of(const struct tables *t, const struct python_file *f,
			   struct str condition, int depth);

/* The value of a name that is assigned once. */
static enum truth of_name(const struct tables *t, const struct python_file *f, struct str condition,
			  int depth)
{
	size_t begin = python_begin_of_name(condition, condition.length), at = 0;
	struct str name = python_part(condition, begin, condition.length), set;

	for (size_t i = 0; i < begin; i++)
		if (!python_is_name(condition.at[i]) && condition.at[i] != '.')
			return IS_UNKNOWN;
	if (str_matches(name, "True") || str_matches(name, "False"))
		return *name.at == 'T' ? IS_TRUE : IS_FALSE;
	set = name.length ? python_assignment(f, name, &at) : name;
	if (!name.length || (set.length && python_assignment(f, name, &at).length))
		return IS_UNKNOWN;
	if (!set.length)
		return begin ? of_argparse(t, f, name) : IS_UNKNOWN;
	return value_of(t, f, python_part(set, python_target(set).length + 1, set.length),
			depth + 1);
}

static enum truth value_of(const struct tables *t, const struct python_file *f,
			   struct str condition, int depth)
{
	enum truth found;

	condition = python_trimmed(condition);
	if (depth > MOST_NAMES)
		return IS_UNKNOWN;
	if (str_matches(condition, "not *"))
		return opposite(value_of(
			t, f, python_part(condition, strlen("not "), condition.length), depth + 1));
	found = in_argv(t, f, condition);
	return found != IS_UNKNOWN ? found : of_name(t, f, condition, depth);
}

/* The condition of an `if` that begins a text, up to its colon. */
static struct str condition_of(struct str statement)
{
	return python_part(statement, strlen("if "), python_find_outside(statement, 0, ":"));
}

/* Of the statement of a place itself: `if c: statement`, and `a if c else b`. */
static enum truth in_statement(const struct tables *t, const struct python_file *f, size_t place)
{
	struct str statement = python_statement_at(f, place);
	size_t at = place - (size_t)(statement.at - f->text);
	size_t begin = python_find_word(statement, 0, WORD("if")), end;

	if (begin == statement.length)
		return IS_TRUE;
	if (!begin) {
		struct str condition = condition_of(statement);
		size_t colon = strlen("if ") + condition.length;

		return at > colon ? value_of(t, f, condition, 0) : IS_TRUE;
	}
	end = python_find_word(statement, begin, WORD("else"));
	if (end == statement.length ||
	    python_find_word(statement, begin + 1, WORD("if")) < statement.length)
		return IS_UNKNOWN;
	struct str condition = python_part(statement, begin + strlen("if"), end);

	if (at < begin)
		return value_of(t, f, condition, 0);
	return at > end ? opposite(value_of(t, f, condition, 0)) : IS_TRUE;
}

/* Of the line of an `if`. */
static enum truth of_if(const struct tables *t, const struct python_file *f, uint32_t line)
{
	size_t begin = f->starts[line - 1] + python_indent(f, line);

	return value_of(t, f, condition_of(python_statement_at(f, begin)), 0);
}

/* Of an `else`: what its `if` says. */
static enum truth of_else(const struct tables *t, const struct python_file *f, uint32_t line)
{
	size_t indent = python_indent(f, line);

	while (line-- > 1) {
		size_t n = python_indent(f, line);

		if (n == SIZE_MAX || n > indent)
			continue;
		return n == indent && python_begins_with(f, line, "if *")
			       ? opposite(of_if(t, f, line))
			       : IS_UNKNOWN;
	}
	return IS_UNKNOWN;
}

enum truth conditions_at(const struct tables *t, const struct python_file *f, size_t place)
{
	uint32_t head = python_line_at(f, place), first = python_function(f, head).first;
	enum truth all = in_statement(t, f, place);

	while ((head = python_head(f, head)) > 0 && head >= first) {
		if (python_begins_with(f, head, "if *"))
			all = both(all, of_if(t, f, head));
		else if (python_begins_with(f, head, "else*"))
			all = both(all, of_else(t, f, head));
		else if (python_begins_with(f, head, "elif *"))
			all = both(all, IS_UNKNOWN);
	}
	return all;
}
