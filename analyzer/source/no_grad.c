#include "source/no_grad.h"

#include "source/conditions.h"

/* `set_grad_enabled(False)` or `set_grad_enabled(True)`. */
static enum no_grad_says said_by_setting(struct str statement)
{
	const struct str name = WORD("set_grad_enabled");
	size_t at = python_find_word(statement, 0, name);
	struct str value;

	if (at == statement.length)
		return NO_GRAD_NOTHING;
	at = python_skip_blanks(statement, at + name.length);
	at = at < statement.length ? python_skip_blanks(statement, at + 1) : at;
	value = python_part(statement, at, python_end_of_name(statement, at));
	return python_has_word(value, WORD("False"))  ? NO_GRAD_OFF
	       : python_has_word(value, WORD("True")) ? NO_GRAD_ON
						      : NO_GRAD_NOTHING;
}

static enum no_grad_says said_by(const struct job_source *s, const struct python_file *f,
				 struct str statement)
{
	static const struct str off[] = { WORD("no_grad"), WORD("inference_mode") };

	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		size_t at = python_find_word(statement, 0, off[i]);

		if (at == statement.length)
			continue;
		if (!python_has_word(statement, WORD("if")))
			return NO_GRAD_OFF;
		switch (conditions_at(s->tables, f, (size_t)(statement.at - f->text) + at)) {
		case IS_TRUE:
			return NO_GRAD_OFF;
		case IS_FALSE:
			return NO_GRAD_NOTHING;
		default:
			return NO_GRAD_MAYBE;
		}
	}
	return python_has_word(statement, WORD("enable_grad")) ? NO_GRAD_ON
							       : said_by_setting(statement);
}

static enum no_grad_says said_by_decorators(const struct job_source *s, const struct python_file *f,
					    uint32_t function)
{
	enum no_grad_says said = NO_GRAD_NOTHING;

	/* A comment is an empty line. */
	for (uint32_t i = function; !said && i > 1;) {
		i = python_statement(f, i - 1).first;
		if (!i || (python_indent(f, i) != SIZE_MAX && !python_begins_with(f, i, "@*")))
			break;
		said = said_by(s, f, python_text(f, python_statement(f, i)));
	}
	return said;
}

enum no_grad_says no_grad_around(const struct job_source *s, const struct python_file *f,
				 uint32_t line)
{
	uint32_t function = python_function(f, line).first, head = python_statement(f, line).first;
	enum no_grad_says said = NO_GRAD_NOTHING;

	for (; head && head >= function && !said; head = python_head(f, head))
		if (python_begins_with(f, head, "with *") ||
		    python_begins_with(f, head, "async with *"))
			said = said_by(s, f, python_text(f, python_statement(f, head)));
	return said ? said : said_by_decorators(s, f, function);
}

int job_source_is_no_grad(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	enum no_grad_says said = NO_GRAD_NOTHING;

	for (uint32_t i = 0; i < of->frame_count && !said; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f = job_source_own_file(s, frame);

		said = f ? no_grad_around(s, f, frame->line) : NO_GRAD_NOTHING;
	}
	return said == NO_GRAD_OFF;
}
