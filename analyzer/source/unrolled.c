#include "source/unrolled.h"

#include "source/loops.h"

/* Does a statement of the loop make something of a value that is not the last one: a list, a sum of
 * losses, gradients? */
static int keeps(const struct python_names *of, const struct python_names *fed,
		 struct str statement)
{
	static const struct str gradients[] = { WORD("backward"), WORD("manual_backward"),
						WORD("grad") };
	static const struct str lists[] = { WORD("append"), WORD("extend"), WORD("yield") };
	struct str target = python_target(statement);

	if (python_has_any(statement, gradients, ARRAY_SIZE(gradients)))
		return 1;
	if (!target.length)
		return python_has_any(statement, lists, ARRAY_SIZE(lists));
	return target.at[target.length - 1] == '+' && python_names_used(of, statement) &&
	       !python_names_in(fed, target);
}

/* If the value of the statement comes back to it, and the loop makes nothing else of it, adds the
 * names that bring it. */
static void add_fed(struct python_names *n, const struct python_file *f, struct python_range at,
		    struct python_range body)
{
	struct str statement = python_text(f, at);
	struct python_names from = { 0 }, fed = { 0 };

	if (!python_target(statement).length)
		return;
	python_names_add(&from, statement);
	python_names_follow(&from, f, at.last + 1, body.last + 1);
	python_names_follow(&from, f, body.first, at.first);
	for (size_t i = 0; i < from.count; i++) {
		struct python_names one = { .list = { from.list[i] }, .count = 1 };

		if (python_names_used(&one, statement))
			fed.list[fed.count++] = from.list[i];
	}
	for (uint32_t i = body.first; i <= body.last && fed.count;
	     i = python_statement(f, i).last + 1)
		if (keeps(&from, &fed, python_text(f, python_statement(f, i))))
			return;
	*n = fed;
}

int job_source_is_unrolled(struct job_source *s, uint32_t stack)
{
	return loops_lead_to_backward(s, stack, s->unrolled, add_fed);
}
