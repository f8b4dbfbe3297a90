#include "source/last_token.h"

#include "source/python_names.h"

/* `[:, -1]`, `[:, -1, ...]` or `[:, -1:]`, with any blanks. */
static int has_last(struct str text)
{
	for (size_t open = 0; open < text.length; open++) {
		size_t at = python_skip_blanks(text, open + 1);

		if (text.at[open] != '[' || at >= text.length || text.at[at] != ':')
			continue;
		at = python_skip_blanks(text, at + 1);
		if (at >= text.length || text.at[at] != ',')
			continue;
		at = python_skip_blanks(text, at + 1);
		if (at + 1 >= text.length || text.at[at] != '-' || text.at[at + 1] != '1')
			continue;
		at = python_skip_blanks(text, at + 2);
		if (at < text.length && text.at[at] == ':')
			at = python_skip_blanks(text, at + 1);
		if (at < text.length && (text.at[at] == ']' || text.at[at] == ','))
			return 1;
	}
	return 0;
}

/* Does a statement of the function, from a line's on, take the last position of its value? */
static int takes_last(const struct python_file *f, uint32_t line)
{
	struct python_range function = python_function(f, line), at = python_statement(f, line);
	struct python_names result = { 0 };
	struct str own = python_text(f, at);
	size_t open = python_target(own).length;

	/* Behind the call, and not among its arguments. */
	while (open < own.length && own.at[open] != '(')
		open++;
	open = python_behind_bracket(own, open);
	if (has_last(python_part(own, open, own.length)))
		return 1;
	python_names_add(&result, own);
	for (uint32_t i = at.last + 1; i <= function.last && result.count;) {
		struct python_range next = python_statement(f, i);
		struct str text = python_text(f, next);

		if (python_names_used(&result, text))
			return has_last(text);
		i = next.last + 1;
	}
	return 0;
}

int job_source_takes_last(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	uint32_t caller = job_source_caller(s, of);
	const struct mt_frame *frame;
	const struct python_file *f;

	if (!caller || caller == of->frame_count)
		return 0;
	frame = tables_frame(s->tables, of->frames[caller]);
	f = job_source_own_file(s, frame);
	return f && takes_last(f, frame->line);
}
