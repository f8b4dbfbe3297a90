#define _GNU_SOURCE
#include "source/settings.h"

#include "source/conditions.h"
#include "util/glob.h"

#include <string.h>

/* Is a method called of what an optimizer gets: `net.double()`, or `net = Net().double()`? `dot` is
 * the place before its name. */
static int is_of_trained(const struct model_parts *trained, const struct python_file *f, size_t dot)
{
	struct str text = python_whole(f);
	size_t end = dot, begin = python_begin_of_name(text, end);

	if (end && text.at[end - 1] == ')') {
		struct str target = python_target(python_statement_at(f, dot));

		begin = (size_t)(target.at - text.at);
		end = begin + target.length;
		while (end > begin && text.at[end - 1] == ' ')
			end--;
		begin = python_begin_of_name(text, end);
	}
	return begin < end && model_parts_has(trained, python_part(text, begin, end),
					      begin && text.at[begin - 1] == '.');
}

/* Is a setting no method, or one of what an optimizer gets, as far as that is known? */
static int is_of_model(const struct job_source *s, const struct python_file *f, size_t at)
{
	const struct optimized *o = &s->optimized;

	return !at || f->text[at - 1] != '.' || o->unknown || !o->trained.count ||
	       is_of_trained(&o->trained, f, at - 1);
}

/* Is it the definition of a method of this name, or in one, as a module of the job's own passes a
 * call on? */
static int is_in_method(const struct python_file *f, size_t at, struct str word)
{
	struct str head = python_statement_at(f, at);
	size_t name;

	if (!str_matches(head, "def *"))
		head = python_text(
			f, python_statement(f, python_function(f, python_line_at(f, at)).first));
	name = python_find_word(head, 0, word);
	return str_matches(head, "*def *") && name < head.length &&
	       name < python_find_outside(head, 0, "(");
}

static int asks_for(const struct job_source *s, const struct python_file *f, struct str word,
		    const char *behind)
{
	struct str text = python_whole(f);

	for (size_t at = 0; (at = python_find_word(text, at, word)) < text.length;) {
		struct str rest = { text.at + at + word.length, text.length - at - word.length };

		at += word.length;
		if (str_matches(rest, behind) && !is_in_method(f, at - 1, word) &&
		    is_of_model(s, f, at - word.length) &&
		    conditions_at(s->tables, f, at - 1) == IS_TRUE)
			return 1;
	}
	return 0;
}

int job_source_recomputes(const struct job_source *s)
{
	for (const struct python_file *f = NULL; (f = job_source_next(s, f));)
		if (asks_for(s, f, WORD("gradient_checkpointing_enable"), "(*") ||
		    asks_for(s, f, WORD("gradient_checkpointing"), "=True*"))
			return 1;
	return 0;
}

/* Is a place in a class of which no function is on any stack? Such a class may not be in use. */
static int is_in_unused_class(const struct job_source *s, const struct python_file *f, size_t place)
{
	uint32_t head = python_line_at(f, place), last = head, around;

	while ((around = python_head(f, head)) > 0)
		head = around;
	if (!python_begins_with(f, head, "class *"))
		return 0;
	while (last < f->line_count && python_indent(f, last + 1) != 0)
		last++;
	for (uint32_t i = 1; i < s->tables->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, i);
		struct str path = tables_string(s->tables, frame->file);

		if (frame->line > head && frame->line <= last && path.length == f->path.length &&
		    !memcmp(path.at, f->path.at, path.length))
			return 0;
	}
	return 1;
}

/* Is what an optimizer gets converted to float64: `.double()`, `.to(..., torch.float64)`? */
static int converts(const struct job_source *s, const struct python_file *f)
{
	static const struct str methods[] = { WORD("double"), WORD("to") };
	struct str text = python_whole(f);

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		for (size_t at = 0; (at = python_find_word(text, at, methods[i])) < text.length;) {
			size_t dot = at - (at > 0), open = at += methods[i].length, close;

			if (text.at[dot] != '.' || open == text.length || text.at[open] != '(' ||
			    !is_of_trained(&s->optimized.trained, f, dot) ||
			    conditions_at(s->tables, f, dot) != IS_TRUE ||
			    is_in_unused_class(s, f, dot))
				continue;
			close = python_behind_bracket(text, open);
			if (!i ||
			    python_has_word(python_part(text, open, close), WORD("float64")) ||
			    python_has_word(python_part(text, open, close), WORD("double")))
				return 1;
		}
	return 0;
}

/* torch.set_default_dtype(torch.float64), or of a type that a known condition chooses. */
static int sets_default(const struct job_source *s, const struct python_file *f)
{
	static const struct str types[] = { WORD("float64"), WORD("double") };
	const struct str setter = WORD("set_default_dtype");
	struct str text = python_whole(f);

	for (size_t at = 0; (at = python_find_word(text, at, setter)) < text.length;) {
		size_t open = at += setter.length, close = python_behind_bracket(text, open);

		for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
			size_t type = python_find_word(python_part(text, 0, close), open, types[i]);

			if (type < close && conditions_at(s->tables, f, type) == IS_TRUE &&
			    !is_in_unused_class(s, f, type))
				return 1;
		}
	}
	return 0;
}

/* Lightning's setting, which is a text in quotes. */
static int asks_lightning(const struct job_source *s, const struct python_file *f)
{
	static const char setting[] = "64-true";
	const char *at = memmem(f->raw, f->length, setting, strlen(setting));
	size_t place = at ? (size_t)(at - f->raw) : 0;
	struct str before;

	/* As a value, and neither in a comment nor in a list of choices. */
	if (!place || (f->text[place - 1] != '"' && f->text[place - 1] != '\''))
		return 0;
	before = python_trimmed(python_part(python_whole(f), 0, place - 1));
	return (str_matches(before, "*=") || str_matches(before, "* else")) &&
	       conditions_at(s->tables, f, place) == IS_TRUE;
}

int job_source_is_float64(const struct job_source *s)
{
	for (const struct python_file *f = NULL; (f = job_source_next(s, f));)
		if (sets_default(s, f) || asks_lightning(s, f) || converts(s, f))
			return 1;
	return 0;
}

/* Does a file have a word of training, of a library's loop or of an optimizer? */
static int speaks_of_training(const struct python_file *f)
{
	static const char *const patterns[] = { "backward", "fit",  "train*",
						"*Trainer", "step", NULL };
	struct str word;

	for (size_t at = 0; (word = python_next_name(python_whole(f), &at)).length;)
		if (python_matches_any(word, patterns) || optimized_is_class(word))
			return 1;
	return 0;
}

int job_source_infers(const struct job_source *s)
{
	const struct python_file *f = job_source_next(s, NULL);
	int is_there = f != NULL;

	for (; f; f = job_source_next(s, f))
		if (speaks_of_training(f))
			return 0;
	return is_there;
}
