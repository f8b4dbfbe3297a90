#include "source/generated.h"

#include "attribution/frames.h"
#include "source/python_names.h"
#include "util/glob.h"

#include <string.h>

/* What a line says of the result of its call. */
enum generated_says {
	SAYS_UNREAD,
	SAYS_NOTHING,
	SAYS_GENERATED, /* the step behind it trains what takes the result, and not what made it */
};

struct step_statement {
	struct python_range at;
	struct str text;
};

/* The next statement of a function from a line on; empty: none. */
static struct step_statement next_statement(const struct python_file *f, uint32_t line,
					    uint32_t last)
{
	struct step_statement u = { .text = { f->text, 0 } };

	if (line <= last) {
		u.at = python_statement(f, line);
		u.text = python_text(f, u.at);
	}
	return u;
}

/* The receiver of the .step() in a statement: "opt" in self.opt.step(); empty: there is none. */
static struct str stepped(struct str statement)
{
	size_t at = python_find_word(statement, 0, WORD("step"));

	if (at == statement.length || !at || statement.at[at - 1] != '.')
		return python_part(statement, 0, 0);
	return python_part(statement, python_begin_of_name(statement, at - 1), at - 1);
}

/* Does the optimizer of that name have some of the parts that a statement calls, and none of those
 * of the other one? */
static int trains(const struct python_file *f, struct str optimizer,
		  const struct model_parts *takes, const struct model_parts *makes)
{
	int has = 0;

	for (size_t at = 0;;) {
		struct str made = python_assignment(f, optimizer, &at);

		if (!made.length)
			return has;
		for (size_t i = 0; i < makes->count; i++)
			if (python_has_word(made, makes->list[i].name))
				return 0;
		for (size_t i = 0; i < takes->count; i++)
			has |= python_has_word(made, takes->list[i].name);
	}
}

/* Adds the parts that a statement calls. */
static void add_called(struct model_parts *called, const struct model_parts *all, struct str text)
{
	for (size_t i = 0; i < all->count; i++) {
		struct model_parts one = { .list = { all->list[i] }, .count = 1 };

		if (model_parts_find_call(&one, text, 0) < text.length)
			model_parts_add(called, all->list[i]);
	}
}

/* Is the result used from a line on, before it is made anew? */
static int is_used_later(const struct python_file *f, const struct python_names *result,
			 uint32_t line, uint32_t last)
{
	for (struct step_statement u; (u = next_statement(f, line, last)).text.length;
	     line = u.at.last + 1) {
		if (python_names_used(result, u.text))
			return 1;
		if (python_names_in(result, python_target(u.text)))
			return 0;
	}
	return 0;
}

/* Is a result left to the part that takes it: does the first step behind it train that, and no step
 * up to the next backward pass what made it? */
static int is_left(const struct job_source *s, const struct python_file *f,
		   const struct python_names *result, const struct model_parts *makes,
		   uint32_t line, uint32_t last)
{
	const struct model_parts *all = &s->optimized.trained;
	struct model_parts takes = { 0 };
	int trained = 0;

	for (struct step_statement u; (u = next_statement(f, line, last)).text.length;
	     line = u.at.last + 1) {
		struct str optimizer = stepped(u.text);

		if (trained && (python_has_word(u.text, WORD("backward")) ||
				model_parts_find_call(all, u.text, 0) < u.text.length))
			break;
		if (python_names_used(result, u.text) && !python_has_word(u.text, WORD("detach")))
			add_called(&takes, all, u.text);
		if (!optimizer.length)
			continue;
		if (trains(f, optimizer, makes, &takes) ||
		    (!trained && !trains(f, optimizer, &takes, makes)))
			return 0;
		trained = 1;
	}
	return trained && !is_used_later(f, result, line, last);
}

static enum generated_says line_says(struct job_source *s, uint32_t frame)
{
	const struct mt_frame *of = tables_frame(s->tables, frame);
	const struct python_file *f =
		frame_is(s->tables, frame, FRAME_LIBRARY) ? NULL : job_source_file(s, of);
	struct model_parts makes = { 0 };
	struct python_names result = { 0 };
	struct python_range at, function;

	if (!f)
		return SAYS_NOTHING;
	at = python_statement(f, of->line);
	function = python_function(f, of->line);
	add_called(&makes, &s->optimized.trained, python_text(f, at));
	python_names_add(&result, python_text(f, at));
	if (!makes.count || !python_target(python_text(f, at)).length)
		return SAYS_NOTHING;
	return is_left(s, f, &result, &makes, at.last + 1, function.last) ? SAYS_GENERATED
									  : SAYS_NOTHING;
}

int job_source_is_generated(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);

	/* From the outermost frame to the first module. */
	for (uint32_t i = of->frame_count; s->generated && !s->optimized.unknown && i-- > 0;) {
		uint32_t frame = of->frames[i];
		unsigned char *says = &s->generated[frame < s->tables->frame_count ? frame : 0];

		if (frame_is(s->tables, frame, FRAME_MODULE_CALL | FRAME_FORWARD))
			return 0;
		if (!*says)
			*says = (unsigned char)line_says(s, frame);
		if (*says == SAYS_GENERATED)
			return 1;
	}
	return 0;
}
