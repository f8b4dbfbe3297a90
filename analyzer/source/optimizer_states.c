#define _GNU_SOURCE
#include "source/optimizer_states.h"

#include "source/conditions.h"
#include "util/glob.h"

#include <string.h>

#define UNKNOWN (-1)
#define NONE_YET (-2)

/* PyTorch's classes (torch/optim) whose states have the size of the parameter. */
static const struct {
	const char *name;
	int states;
} classes[] = {
	{ "Adam", 2 },     { "AdamW", 2 },   { "NAdam", 2 },   { "RAdam", 2 }, { "Adamax", 2 },
	{ "Adadelta", 2 }, { "Adagrad", 1 }, { "RMSprop", 1 }, { "SGD", 0 },
};

/* Is an argument `name=value` set to another value than 0 or False? UNKNOWN if the value is no
 * literal. */
static int is_set(struct str arguments, struct str name)
{
	size_t at = python_find_word(arguments, 0, name), end;
	struct str value;

	if (at == arguments.length)
		return 0;
	at = python_skip_blanks(arguments, at + name.length);
	if (at == arguments.length || arguments.at[at] != '=')
		return 0;
	at = end = python_skip_blanks(arguments, at + 1);
	while (end < arguments.length && !strchr(",) \t\n", arguments.at[end]))
		end++;
	value = python_part(arguments, at, end);
	if (str_matches(value, "0") || str_matches(value, "0.0") || str_matches(value, "False"))
		return 0;
	return value.length && (strchr("0123456789.", *value.at) || str_matches(value, "True"))
		       ? 1
		       : UNKNOWN;
}

/* Arguments before the first with a name. */
static size_t positional(struct str arguments)
{
	struct str inside = python_part(arguments, 1, arguments.length - 1);
	size_t count = 1;

	for (size_t at = 0; (at = python_find_outside(inside, at, ",=")) < inside.length; at++) {
		if (inside.at[at] == '=')
			return count - 1;
		count += python_skip_blanks(inside, at + 1) < inside.length;
	}
	return count;
}

/* The states that options add: SGD's and RMSprop's momentum, Adam's amsgrad, RMSprop's average.
 * SGD's third argument is the momentum. */
static int states_of(size_t class, struct str arguments)
{
	static const struct str options[] = { WORD("momentum"), WORD("amsgrad"), WORD("centered") };
	int states = classes[class].states;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int set = is_set(arguments, options[i]);

		if (set == UNKNOWN)
			return UNKNOWN;
		states += set;
	}
	return memmem(arguments.at, arguments.length, "**", 2) || positional(arguments) > 2
		       ? UNKNOWN
		       : states;
}

/* The states of what stands at a name: the call of a class; NONE_YET: it makes no optimizer. */
static int states_at(const struct job_source *s, const struct python_file *f, struct str name)
{
	struct str text = python_whole(f), statement;
	size_t at = (size_t)(name.at - f->text), open = python_skip_blanks(text, at + name.length);

	if (!optimized_is_class(name))
		return NONE_YET;
	statement = python_statement_at(f, at);
	if (str_matches(statement, "import *") || str_matches(statement, "from *") ||
	    str_matches(statement, "class *") || str_matches(statement, "def *") ||
	    conditions_at(s->tables, f, at) == IS_FALSE)
		return NONE_YET;
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (str_matches(name, classes[i].name))
			return open < text.length && text.at[open] == '('
				       ? states_of(i,
						   python_part(text, open,
							       python_behind_bracket(text, open)))
				       : UNKNOWN;
	return UNKNOWN;
}

int job_source_states(const struct job_source *s)
{
	int states = NONE_YET;

	for (const struct python_file *f = NULL; (f = job_source_next(s, f));) {
		struct str name;

		for (size_t at = 0; (name = python_next_name(python_whole(f), &at)).length;) {
			int found = states_at(s, f, name);

			if (found == UNKNOWN || (found >= 0 && states >= 0 && found != states))
				return UNKNOWN;
			states = found >= 0 ? found : states;
		}
	}
	return states == NONE_YET ? UNKNOWN : states;
}
