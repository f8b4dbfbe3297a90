#include "source/gradients.h"

#include "attribution/frames.h"
#include "source/model_parts.h"
#include "source/no_grad.h"

#include <string.h>

static int has_way(struct str text)
{
	static const struct str ways[] = { WORD("backward"), WORD("manual_backward"),
					   WORD("grad"),     WORD("value_and_grad"),
					   WORD("vjp"),      WORD("jacobian"),
					   WORD("jacrev"),   WORD("hessian"),
					   WORD("minimize"), WORD("loss_scaler") };

	return python_has_any(text, ways, ARRAY_SIZE(ways));
}

/* Adds the functions of a file that have a way to gradients. */
static void find_asking(struct asking_functions *a, const struct python_file *f)
{
	const struct str def = WORD("def");
	struct str text = python_whole(f);

	for (size_t at = 0; (at = python_find_word(text, at, def)) < text.length;) {
		uint32_t line = python_statement(f, python_line_at(f, at)).last + 1;
		struct str name;

		at += def.length;
		name = python_next_name(text, &at);
		if (name.length && a->names.count < PYTHON_NAMES &&
		    has_way(python_text(f, python_function(f, line))))
			a->names.list[a->names.count++] = name;
	}
}

static const struct python_names *asking_functions(struct job_source *s,
						   const struct python_file *f)
{
	struct asking_functions *a = s->asking;

	while (a < s->asking + ARRAY_SIZE(s->asking) - 1 && a->text && a->text != f->text)
		a++;
	if (a->text != f->text) {
		*a = (struct asking_functions){ .text = f->text };
		s->work += f->length;
		find_asking(a, f);
	}
	return &a->names;
}

/* Does a part of the text ask for gradients, itself or in a function of the file that it calls? */
static int asks(struct job_source *s, const struct python_file *f, struct str text)
{
	const struct python_names *functions = asking_functions(s, f);

	if (has_way(text))
		return 1;
	for (size_t i = 0; i < functions->count; i++) {
		struct str name = functions->list[i];

		for (size_t at = 0; (at = python_find_word(text, at, name)) < text.length;
		     at += name.length)
			if (at + name.length < text.length && text.at[at + name.length] == '(' &&
			    !(at && text.at[at - 1] == '.') &&
			    !(at >= 4 && !memcmp(text.at + at - 4, "def ", 4)))
				return 1;
	}
	return 0;
}

/* Does the innermost loop around a line, or what follows the line in its function, ask for
 * gradients? */
static int asks_behind(struct job_source *s, const struct python_file *f, uint32_t line)
{
	struct python_range own = python_statement(f, line), body,
			    behind = { own.first, python_function(f, line).last };

	return asks(s, f, python_text(f, behind)) ||
	       (python_loop(f, line, &body) && asks(s, f, python_text(f, body)));
}

int job_source_asks_gradients(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	uint32_t first = job_source_caller(s, of);
	int found = -1;

	for (uint32_t i = first; first && i < of->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_own_file(s, frame);
		if (!f)
			return -1;
		if (asks_behind(s, f, frame->line))
			return 1;
		found = 0;
	}
	return found;
}

/* The name of a trained part that a statement calls: "net" in `self.net(x)`; empty: none. */
static struct str trained_part(const struct job_source *s, struct str statement)
{
	size_t at = model_parts_find_call(&s->optimized.trained, statement, 0), end;

	if (at == statement.length)
		return python_part(statement, at, at);
	end = python_end_of_name(statement, at);
	return python_part(statement, python_begin_of_name(statement, end), end);
}

/* Does a text call that part, or a method of it, with arguments? */
static int calls_part(struct str text, struct str part)
{
	for (size_t at = 0; (at = python_find_word(text, at, part)) < text.length;
	     at += part.length) {
		size_t end = at + part.length, argument;

		while (end < text.length && (python_is_name(text.at[end]) || text.at[end] == '.'))
			end++;
		if (end == text.length || text.at[end] != '(')
			continue;
		argument = python_skip_blanks(text, end + 1);
		if (argument < text.length && text.at[argument] != ')')
			return 1;
	}
	return 0;
}

/* Is the first way to gradients from a line on, up to `end`, a backward pass in a loop behind that
 * line, which calls the part? 0 if it is not; -1: there is none. */
static int trains_behind(struct job_source *s, const struct python_file *f, uint32_t from,
			 uint32_t end, struct str part)
{
	for (uint32_t i = from; i <= end; i = python_statement(f, i).last + 1) {
		struct python_range body;

		if (asks(s, f, python_text(f, python_statement(f, i))))
			return python_loop(f, i, &body) && body.first > from &&
			       calls_part(python_text(f, body), part);
	}
	return -1;
}

/* Does the line of a call drop the graph of its value at once? */
static int drops_graph(struct str statement)
{
	static const struct str ways[] = { WORD("detach"), WORD("item"), WORD("tolist"),
					   WORD("numpy") };

	return python_has_any(statement, ways, ARRAY_SIZE(ways));
}

static int is_rollout(struct job_source *s, const struct stack *of, uint32_t first)
{
	struct str part = { 0 };
	int loops = 0, found = -1;

	for (uint32_t i = first; i < of->frame_count && found < 0; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		struct python_range at, body;
		const struct python_file *f;
		struct str statement;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_own_file(s, frame);
		if (!f)
			return 0;
		at = python_statement(f, frame->line);
		statement = python_text(f, at);
		if (!part.length && drops_graph(statement))
			return 0;
		if (!part.length)
			part = trained_part(s, statement);
		/* The loop may be of a function that the one with the updates calls. */
		if (!loops && python_loop(f, frame->line, &body)) {
			if (asks(s, f, python_text(f, body)))
				return 0;
			at = body;
			loops = 1;
		}
		found = trains_behind(s, f, at.last + 1, python_function(f, frame->line).last,
				      part);
	}
	return part.length && loops && found > 0;
}

/* The frames from the call on: those within the model make no difference. */
static uint64_t hash_of(const struct stack *of, uint32_t first)
{
	uint64_t hash = of->frame_count - first;

	for (uint32_t i = first; i < of->frame_count; i++)
		hash = (hash ^ of->frames[i]) * 0x9e3779b97f4a7c15u;
	return hash;
}

int job_source_is_rollout(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);
	uint32_t first = job_source_caller(s, of);
	uint64_t hash = hash_of(of, first);
	struct rollout_seen *seen = &s->rollouts[hash % ARRAY_SIZE(s->rollouts)];

	if (!first || first == of->frame_count)
		return 0;
	if (!seen->is_known || seen->hash != hash)
		*seen = (struct rollout_seen){ .hash = hash,
					       .is_known = 1,
					       .is_rollout = is_rollout(s, of, first) };
	return seen->is_rollout && !job_source_is_no_grad(s, stack);
}
