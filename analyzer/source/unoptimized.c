#include "source/unoptimized.h"

#include "attribution/frames.h"
#include "source/no_grad.h"
#include "source/python_names.h"
#include "util/glob.h"

#include <stdlib.h>
#include <string.h>

/* What a line says of the calls that it makes. */
enum line_says {
	SAYS_UNREAD,
	SAYS_NOTHING,
	SAYS_OPTIMIZED, /* calls what an optimizer got */
	SAYS_NESTED,    /* the same, with the result of another call */
	SAYS_OTHER,     /* another line of its function does */
};

/* Does a statement use what came out of an earlier one of its function? */
static int uses_result(const struct python_file *f, struct python_range of, struct python_range by)
{
	struct python_names n = { 0 };

	python_names_add(&n, python_text(f, of));
	python_names_follow(&n, f, of.last + 1, by.first);
	return python_names_used(&n, python_text(f, by));
}

/* Does another line of the function call what an optimizer got, and this one uses no result of
 * it? */
static int is_beside(struct job_source *s, const struct python_file *f, uint32_t line)
{
	struct python_range function = python_function(f, line), own = python_statement(f, line);
	struct str text = python_text(f, function);
	int found = 0;

	for (size_t at = 0;;) {
		at = model_parts_find_call(&s->optimized.trained, text, at);
		s->work += text.length;
		if (at == text.length || s->work > JOB_SOURCE_MOST_WORK)
			return found;
		uint32_t other = python_line_at(f, (size_t)(text.at - f->text) + at);
		struct python_range statement = python_statement(f, other);

		at++;
		if (statement.first == own.first ||
		    python_function(f, other).first != function.first)
			continue;
		if (statement.first < own.first && uses_result(f, statement, own))
			return 0;
		found = 1;
	}
}

/* Does an assignment construct an object: is the first call of its value that of a class? */
static int constructs(struct str assignment)
{
	size_t at = python_target(assignment).length, begin;

	while (at < assignment.length && assignment.at[at] != '(')
		at++;
	begin = python_begin_of_name(assignment, at);
	return begin < at && assignment.at[begin] >= 'A' && assignment.at[begin] <= 'Z';
}

/* Does the file assign to that name, or define it? */
static int is_defined(const struct python_file *f, struct str name)
{
	struct str text = python_whole(f);
	size_t at = 0;

	if (python_assignment(f, name, &at).length)
		return 1;
	for (at = 0; (at = python_find_word(text, at, name)) < text.length; at += name.length)
		if (at >= 4 && !memcmp(text.at + at - 4, "def ", 4))
			return 1;
	return 0;
}

/* Is there a call of what the file defines, in a text? */
static int calls_other(const struct python_file *f, struct str text)
{
	for (size_t i = 1; i < text.length; i++) {
		size_t begin = python_begin_of_name(text, i);

		if (text.at[i] == '(' && begin < i &&
		    is_defined(f, (struct str){ text.at + begin, i - begin }))
			return 1;
	}
	return 0;
}

/* The arguments of the first call of an optimized part in a statement; empty: there is none. */
static struct str arguments_of(const struct job_source *s, struct str statement)
{
	size_t call = model_parts_find_call(&s->optimized.trained, statement, 0), end;

	while (call < statement.length && statement.at[call] != '(')
		call++;
	if (call == statement.length)
		return (struct str){ statement.at, 0 };
	end = python_behind_bracket(statement, call);
	return (struct str){ statement.at + call + 1, end - call - 1 };
}

/* What a frame's line says. */
static enum line_says line_says(struct job_source *s, uint32_t frame)
{
	const struct mt_frame *at = tables_frame(s->tables, frame);
	const struct python_file *f = job_source_file(s, at);
	enum no_grad_says no_grad;
	struct str text;
	size_t call;

	if (!f)
		return SAYS_NOTHING;
	no_grad = no_grad_around(s, f, at->line);
	if (no_grad == NO_GRAD_OFF || no_grad == NO_GRAD_MAYBE)
		return SAYS_NOTHING;
	text = python_text(f, python_statement(f, at->line));
	call = model_parts_find_call(&s->optimized.trained, text, 0);
	if (call == text.length)
		return model_parts_find_call(&s->optimized.left_out, text, 0) < text.length ||
				       is_beside(s, f, at->line)
			       ? SAYS_OTHER
			       : SAYS_NOTHING;
	return calls_other(f, arguments_of(s, text)) ? SAYS_NESTED : SAYS_OPTIMIZED;
}

/* The last part of a name with dots. */
static struct str last_name(struct str name)
{
	for (size_t i = name.length; i-- > 0;)
		if (name.at[i] == '.')
			return (struct str){ name.at + i + 1, name.length - i - 1 };
	return name;
}

/* Is the class of a forward() another one than that of each part that a statement calls? Only
 * what is constructed in the same file is known. */
static int is_other_class(const struct job_source *s, const struct python_file *f,
			  struct str statement, struct str class)
{
	for (size_t i = 0; i < s->optimized.trained.count; i++) {
		struct model_parts one = { .list = { s->optimized.trained.list[i] }, .count = 1 };
		struct str made;
		int known = 0;

		if (model_parts_find_call(&one, statement, 0) == statement.length)
			continue;
		for (size_t at = 0; (made = python_assignment(f, one.list[0].name, &at)).length;) {
			known |= constructs(made);
			if (!constructs(made) || python_has_word(made, class))
				return 0;
		}
		if (!known)
			return 0;
	}
	return 1;
}

/* Does the frame inside of a statement belong to a call among the arguments of the optimized
 * one? */
static int is_argument(struct job_source *s, const struct stack *of, uint32_t i)
{
	const struct mt_frame *at = tables_frame(s->tables, of->frames[i]);
	const struct python_file *f = job_source_file(s, at);
	struct str statement, arguments;
	int is_first = 1;

	if (!f)
		return 0;
	statement = python_text(f, python_statement(f, at->line));
	arguments = arguments_of(s, statement);
	while (i-- > 0) {
		struct str name =
			tables_string(s->tables, tables_frame(s->tables, of->frames[i])->function);
		struct str last = last_name(name);

		if (frame_is(s->tables, of->frames[i], FRAME_MODULE_CALL))
			continue;
		if (str_matches(last, "forward") && last.length < name.length) {
			struct str class = { name.at, name.length - last.length - 1 };

			return is_other_class(s, f, statement, last_name(class));
		}
		if (is_first && python_has_word(statement, last))
			return python_has_word(arguments, last);
		is_first = 0;
	}
	return 0;
}

static int is_known(const struct job_source *s)
{
	return s->calls && !s->optimized.unknown &&
	       (s->optimized.trained.count || s->optimized.left_out.count);
}

int job_source_is_unoptimized(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	int found = 0;

	for (uint32_t i = 0; is_known(s) && i < of->frame_count; i++) {
		uint32_t frame = of->frames[i];
		unsigned char *says = &s->calls[frame < s->tables->frame_count ? frame : 0];

		if (frame_is(s->tables, frame, FRAME_LIBRARY))
			continue;
		if (!*says)
			*says = (unsigned char)line_says(s, frame);
		if (*says == SAYS_OPTIMIZED || (*says == SAYS_NESTED && !is_argument(s, of, i)))
			return 0;
		found |= *says == SAYS_OTHER || *says == SAYS_NESTED;
	}
	return found && s->work <= JOB_SOURCE_MOST_WORK;
}
