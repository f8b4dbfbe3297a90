#include "source/gradients.h"

#include "attribution/frames.h"
#include "source/model_parts.h"

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
	static const struct str ways[] = { WORD("backward"), WORD("manual_backward"),
					   WORD("grad"),     WORD("value_and_grad"),
					   WORD("vjp"),      WORD("jacobian"),
					   WORD("jacrev"),   WORD("hessian"),
					   WORD("minimize") };
	struct python_range own = python_statement(f, line), body,
			    behind = { own.first, python_function(f, line).last };

	return python_has_any(python_text(f, behind), ways, ARRAY_SIZE(ways)) ||
	       (python_loop(f, line, &body) &&
		python_has_any(python_text(f, body), ways, ARRAY_SIZE(ways)));
}

int job_source_asks_gradients(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	int found = -1;

	for (uint32_t i = outermost_call(s, of); i < of->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_is_own(tables_string(s->tables, frame->file))
			    ? job_source_file(s, frame)
			    : NULL;
		if (!f)
			return -1;
		if (asks_behind(f, frame->line))
			return 1;
		found = 0;
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

/* Does a part of the text call what an optimizer got? */
static int calls_trained(const struct job_source *s, struct str text)
{
	return model_parts_find_call(&s->optimized.trained, text, 0) < text.length;
}

static int has_backward(struct str text)
{
	return python_has_word(text, WORD("backward")) ||
	       python_has_word(text, WORD("manual_backward"));
}

/* Is the first backward pass from a line on, up to `end`, in a loop behind that line, which calls
 * what is trained? 0 if it is not; -1: there is none. */
static int trains_behind(const struct job_source *s, const struct python_file *f, uint32_t from,
			 uint32_t end)
{
	for (uint32_t i = from; i <= end; i = python_statement(f, i).last + 1) {
		struct python_range body;

		if (has_backward(python_text(f, python_statement(f, i))))
			return python_loop(f, i, &body) && body.first > from &&
			       calls_trained(s, python_text(f, body));
	}
	return -1;
}

int job_source_is_rollout(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	int is_trained = 0, loops = 0, found = -1;

	for (uint32_t i = outermost_call(s, of); i < of->frame_count && found < 0; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		struct python_range at, body;
		const struct python_file *f;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_is_own(tables_string(s->tables, frame->file))
			    ? job_source_file(s, frame)
			    : NULL;
		if (!f)
			return 0;
		at = python_statement(f, frame->line);
		is_trained |= calls_trained(s, python_text(f, at));
		/* The loop may be of a function that the one with the updates calls. */
		if (!loops && python_loop(f, frame->line, &body)) {
			if (has_backward(python_text(f, body)))
				return 0;
			at = body;
			loops = 1;
		}
		found = trains_behind(s, f, at.last + 1, python_function(f, frame->line).last);
	}
	return is_trained && loops && found > 0;
}
