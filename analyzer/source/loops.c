#include "source/loops.h"

#include <string.h>

#include "attribution/frames.h"
#include "util/glob.h"

/* What becomes of the values of a loop. */
enum loop_says {
	SAYS_UNREAD,
	SAYS_NO_FILE,
	SAYS_NOTHING,
	SAYS_BACKWARD, /* a backward() behind the loop, of them or of what is computed from them */
	SAYS_RETURNS,  /* a return of it */
};

static int has_backward(struct str text)
{
	return python_has_word(text, WORD("backward")) ||
	       python_has_word(text, WORD("manual_backward"));
}

/* What the lines from `from` to `end` do with the names. */
static enum loop_says use_of(struct python_names *n, const struct python_file *f, uint32_t from,
			     uint32_t end)
{
	while (n->count && from <= end) {
		struct python_range lines = python_statement(f, from);
		struct str text = python_text(f, lines);

		if (python_names_in(n, text) && has_backward(text))
			return SAYS_BACKWARD;
		if (python_names_used(n, text) && python_begins_with(f, lines.first, "return*"))
			return SAYS_RETURNS;
		python_names_follow(n, f, lines.first, lines.last + 1);
		from = lines.last + 1;
	}
	return SAYS_NOTHING;
}

/* What is behind the loops around a line, the innermost one first. */
static enum loop_says loop_says(const struct python_file *f, uint32_t line, names_of_loop *values)
{
	struct python_range function = python_function(f, line), at = python_statement(f, line);
	struct python_range body;

	for (uint32_t head = at.first; (head = python_loop(f, head, &body)) > 0;) {
		struct python_names n = { 0 };
		enum loop_says says;

		values(&n, f, at, body);
		says = use_of(&n, f, body.last + 1, function.last);
		if (says != SAYS_NOTHING)
			return says;
	}
	return SAYS_NOTHING;
}

/* What becomes of the value of a call in a line. */
static enum loop_says call_says(const struct python_file *f, uint32_t line)
{
	struct python_range function = python_function(f, line), at = python_statement(f, line);
	struct str text = python_text(f, at);
	struct python_names n = { 0 };

	if (has_backward(text))
		return SAYS_BACKWARD;
	if (python_begins_with(f, at.first, "return*"))
		return SAYS_RETURNS;
	python_names_add(&n, text);
	return use_of(&n, f, at.last + 1, function.last);
}

static int is_comprehension(struct str function)
{
	return str_matches(function, "*<listcomp>") || str_matches(function, "*<genexpr>");
}

/* Does a comprehension go over a few values that it names: `for part in (query, passage)`, or give
 * names to a few results: `query, passage = (...)`? These are the parts of one loss, and no
 * batches.
 */
static int names_its_values(const struct python_file *f, uint32_t line)
{
	struct str text = python_text(f, python_statement(f, line)), target = python_target(text);

	return (target.length && memchr(target.at, ',', target.length)) ||
	       str_matches(text, "* for * in (*,*)*") || str_matches(text, "* for * in [[]*,*]*");
}

/* What a frame's line says: of its loops, or, where what it calls returns such a value, of the
 * call. */
static enum loop_says line_says(struct job_source *s, uint32_t frame, unsigned char *of_loops,
				names_of_loop *values, int returns)
{
	const struct mt_frame *at = tables_frame(s->tables, frame);
	unsigned char *says =
		&(returns ? s->returns : of_loops)[frame < s->tables->frame_count ? frame : 0];

	if (*says == SAYS_UNREAD) {
		const struct python_file *f = job_source_file(s, at);

		*says = (unsigned char)(!f        ? SAYS_NO_FILE
					: returns ? call_says(f, at->line)
					: is_comprehension(tables_string(s->tables, at->function))
						? (names_its_values(f, at->line) ? SAYS_NOTHING
										 : SAYS_RETURNS)
						: loop_says(f, at->line, values));
	}
	return *says;
}

int loops_call_leads_to_backward(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	enum loop_says says = SAYS_RETURNS;

	for (uint32_t i = job_source_caller(s, of);
	     i < of->frame_count && s->returns && says == SAYS_RETURNS; i++)
		if (!frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			says = line_says(s, of->frames[i], s->returns, NULL, 1);
	return says == SAYS_BACKWARD;
}

int loops_lead_to_backward(struct job_source *s, uint32_t stack, unsigned char *of_loops,
			   names_of_loop *values)
{
	const struct stack *of = tables_stack(s->tables, stack);
	enum loop_says says = SAYS_NOTHING;

	for (uint32_t i = job_source_caller(s, of); i < of->frame_count && of_loops; i++) {
		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		says = line_says(s, of->frames[i], of_loops, values, says == SAYS_RETURNS);
		if (says == SAYS_BACKWARD || says == SAYS_NO_FILE)
			break;
	}
	return says == SAYS_BACKWARD;
}
