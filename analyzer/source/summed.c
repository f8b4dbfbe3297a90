#include "source/summed.h"

#include "source/loops.h"

#include <string.h>

/* A value that has no graph any more. */
static int is_cut(struct str text)
{
	return python_has_word(text, WORD("item")) || python_has_word(text, WORD("detach")) ||
	       python_has_word(text, WORD("float")) || python_has_word(text, WORD("tolist"));
}

/* Adds the names that a statement adds something to: `x = x + y`, `x += y`, `x.append(y)`. */
static void add_summed(struct python_names *n, struct str statement)
{
	struct str target = python_target(statement);
	struct python_names set = { 0 };

	if (is_cut(statement))
		return;
	python_names_add(&set, statement);
	if (target.length ? (target.at[target.length - 1] == '+' ||
			     (set.count == 1 && python_names_used(&set, statement) &&
			      memchr(statement.at + target.length, '+',
				     statement.length - target.length)))
			  : set.count > 0)
		python_names_add(n, statement);
}

static void add_all_summed(struct python_names *n, const struct python_file *f,
			   struct python_range at, struct python_range body)
{
	(void)at;
	for (uint32_t i = body.first; i <= body.last; i = python_statement(f, i).last + 1)
		add_summed(n, python_text(f, python_statement(f, i)));
}

int job_source_is_summed(struct job_source *s, uint32_t stack)
{
	return loops_lead_to_backward(s, stack, s->loops, add_all_summed);
}
