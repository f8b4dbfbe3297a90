#include "source/gradients.h"

#include "attribution/frames.h"

/* The line of the outermost call of a module; `frame_count`: there is none. */
static uint32_t outermost_call(const struct job_source *s, const struct stack *of)
{
	for (uint32_t i = of->frame_count; i-- > 1;)
		if (frame_is(s->tables, of->frames[i - 1], FRAME_MODULE_CALL | FRAME_FORWARD))
			return i;
	return of->frame_count;
}

/* Does the innermost loop around a line, or what follows the line in its function, ask for
 * gradients? */
static int asks_behind(const struct python_file *f, uint32_t line)
{
	static const struct str ways[] = { WORD("backward"), WORD("manual_backward"), WORD("grad"),
					   WORD("value_and_grad"), WORD("vjp"), WORD("jacobian"),
					   WORD("jacrev"), WORD("hessian"), WORD("minimize") };
	struct python_range own = python_statement(f, line), body,
			    behind = { own.first, python_function(f, line).last };

	return python_has_any(python_text(f, behind), ways, ARRAY_SIZE(ways)) ||
	       (python_loop(f, line, &body) &&
		python_has_any(python_text(f, body), ways, ARRAY_SIZE(ways)));
}

int job_source_asks_no_gradients(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	int found = 0;

	for (uint32_t i = outermost_call(s, of); i < of->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_is_own(tables_string(s->tables, frame->file))
			    ? job_source_file(s, frame)
			    : NULL;
		if (!f || asks_behind(f, frame->line))
			return 0;
		found = 1;
	}
	return found;
}

enum says { SAYS_NOTHING, SAYS_OFF, SAYS_ON };

static enum says said_by(struct str statement)
{
	static const struct str off[] = { WORD("no_grad"), WORD("inference_mode") };

	/* A choice between two contexts says nothing. */
	if (python_has_word(statement, WORD("if")))
		return SAYS_NOTHING;
	if (python_has_any(statement, off, ARRAY_SIZE(off)))
		return SAYS_OFF;
	return python_has_word(statement, WORD("enable_grad")) ? SAYS_ON : SAYS_NOTHING;
}

/* By the `with` statements around a line, and the decorators of its function. */
static enum says said_around(const struct python_file *f, uint32_t line)
{
	uint32_t function = python_function(f, line).first, head = line;
	enum says said = SAYS_NOTHING;

	while (!said && (head = python_head(f, head)) >= function && head)
		if (python_begins_with(f, head, "with *") ||
		    python_begins_with(f, head, "async with *"))
			said = said_by(python_text(f, python_statement(f, head)));
	for (uint32_t i = function; !said && i-- > 1 && python_begins_with(f, i, "@*");)
		said = said_by(python_line(f, i));
	return said;
}

int job_source_is_no_grad(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);

	for (uint32_t i = 0; i < of->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f =
			job_source_is_own(tables_string(s->tables, frame->file))
				? job_source_file(s, frame)
				: NULL;
		enum says said = f ? said_around(f, frame->line) : SAYS_NOTHING;

		if (said)
			return said == SAYS_OFF;
	}
	return 0;
}
