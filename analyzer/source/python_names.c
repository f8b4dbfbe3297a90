#include "source/python_names.h"

#include "util/glob.h"

/* What a method changes in place: "x[:, :4]" in x[:, :4].copy_(y); empty: modules have no values.
 */
static struct str receiver_of(struct str statement)
{
	static const char *const modules[] = { "torch", "F",    "nn",    "np",      "os",
					       "sys",   "dist", "wandb", "logging", NULL };
	size_t open = 0, dot, begin = python_skip_blanks(statement, 0);

	while (open < statement.length && statement.at[open] != '(')
		open++;
	dot = python_begin_of_name(statement, open);
	if (open == statement.length || !dot || statement.at[dot - 1] != '.' ||
	    python_matches_any(python_part(statement, begin, python_end_of_name(statement, begin)),
			       modules))
		return python_part(statement, 0, 0);
	return python_part(statement, 0, dot - 1);
}

void python_names_add(struct python_names *n, struct str statement)
{
	struct str target = python_target(statement);
	size_t append = python_find_word(statement, 0, WORD("append"));

	if (!target.length && append < statement.length)
		target.length = append;
	else if (!target.length)
		target = receiver_of(statement);
	for (size_t i = 0; i < target.length; i++) {
		size_t begin = i;

		while (i < target.length && python_is_name(target.at[i]))
			i++;
		struct str name = { target.at + begin, i - begin };

		if (i > begin && n->count < PYTHON_NAMES && !str_matches(name, "self") &&
		    !str_matches(name, "_"))
			n->list[n->count++] = name;
	}
}

int python_names_in(const struct python_names *n, struct str text)
{
	for (size_t i = 0; i < n->count; i++)
		if (python_has_word(text, n->list[i]))
			return 1;
	return 0;
}

int python_names_used(const struct python_names *n, struct str statement)
{
	size_t target = python_target(statement).length;

	return python_names_in(n, (struct str){ statement.at + target, statement.length - target });
}

void python_names_follow(struct python_names *n, const struct python_file *f, uint32_t from,
			 uint32_t end)
{
	while (from < end) {
		struct python_range lines = python_statement(f, from);
		struct str text = python_text(f, lines);

		if (python_names_used(n, text))
			python_names_add(n, text);
		from = lines.last + 1;
	}
}
