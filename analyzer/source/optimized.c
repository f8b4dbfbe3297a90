#define _GNU_SOURCE
#include "source/optimized.h"

#include "source/conditions.h"
#include "source/filtered.h"
#include "util/glob.h"

#include <string.h>

#define MOST_TARGETS 64     /* bytes between `for` and `in` */
#define MOST_NAMES 256      /* that are followed */
#define MOST_ASSIGNMENTS 64 /* to one of them */
#define MOST_DEPTH 4        /* of lists in lists, and of names that stand for names */
#define MOST_CALLS 4096     /* that are looked at; more are of a program that a program wrote */

int optimized_is_class(struct str name)
{
	static const char *const patterns[] = { "*Adam*",     "*SGD*",     "*RMSprop*", "*Adagrad*",
						"Adadelta",   "Adafactor", "*Lion*",    "*LAMB*",
						"Lamb*",      "LBFGS",     "*Muon*",    "Rprop",
						"*Optimizer", NULL };

	return name.length && *name.at >= 'A' && *name.at <= 'Z' &&
	       python_matches_any(name, patterns);
}

/* Does a `for` give values to that name, so that it stands for several parts? */
static int is_of_loop(const struct python_file *f, struct str name)
{
	struct str text = python_whole(f);

	for (size_t at = 0; (at = python_find_word(text, at, WORD("for"))) < text.length; at++) {
		size_t in = python_find_word(text, at, WORD("in"));

		if (in - at < MOST_TARGETS && python_has_word(python_part(text, at, in), name))
			return 1;
	}
	return 0;
}

/* Adds the part whose name ends at a place of a text. */
static void add_part(struct optimized *o, const struct python_file *f, struct str text, size_t end)
{
	size_t begin = python_begin_of_name(text, end);
	struct model_part part = { .name = python_part(text, begin, end),
				   .is_attribute = begin && text.at[begin - 1] == '.' };

	if (part.is_attribute)
		part.owner = python_part(text, python_begin_of_name(text, begin - 1), begin - 1);
	if (!part.name.length || str_matches(part.name, "self") ||
	    (!part.is_attribute && is_of_loop(f, part.name)) || !model_parts_add(&o->trained, part))
		o->unknown = 1;
}

/* Adds X of each X.parameters() in a text, which is a part of the file's. Returns whether there is
 * one. */
static int add_parts(struct optimized *o, const struct python_file *f, struct str text)
{
	int found = 0;

	for (size_t at = 0; (at = python_find_word(text, at, WORD("parameters"))) < text.length;
	     at++) {
		if (!at || text.at[at - 1] != '.')
			continue;
		add_part(o, f, text, at - 1);
		found = 1;
	}
	for (size_t at = 0;
	     (at = python_find_word(text, at, WORD("named_parameters"))) < text.length; at++) {
		if (filtered_add(o, f, text, at))
			found = 1;
		else
			o->unknown = 1;
	}
	return found;
}

/* The function whose `def` has its name at that place; empty: there is none. */
static struct str function_at(const struct python_file *f, size_t place)
{
	struct str statement = python_statement_at(f, place);
	struct python_range lines;

	if (statement.at + strlen("def ") != f->text + place || !str_matches(statement, "def *"))
		return python_part(statement, 0, 0);
	lines = python_function(f, python_statement(f, python_line_at(f, place)).last + 1);
	return lines.first == python_line_at(f, place) ? python_text(f, lines)
						       : python_part(statement, 0, 0);
}

static void add_expression(struct optimized *o, const struct python_file *f, struct str text,
			   int depth);

/* Adds the parts of what a name stands for: of its assignments, or of the function of that name. */
static void add_name(struct optimized *o, const struct python_file *f, struct str name, int depth)
{
	struct str text = python_whole(f), statement;
	size_t found = 0;

	if (o->unknown || ++o->names > MOST_NAMES) {
		o->unknown = 1;
		return;
	}
	for (size_t at = 0; !o->unknown && (statement = python_assignment(f, name, &at)).length;
	     o->unknown |= ++found > MOST_ASSIGNMENTS)
		add_expression(o, f,
			       python_part(statement, python_target(statement).length + 1,
					   statement.length),
			       depth + 1);
	for (size_t at = 0; !o->unknown && (at = python_find_word(text, at, name)) < text.length;
	     at += name.length)
		found += (size_t)add_parts(o, f, function_at(f, at));
	if (!found)
		o->unknown = 1;
}

/* Adds the parts of a group of parameters: {"params": ..., "lr": ...}. */
static void add_group(struct optimized *o, const struct python_file *f, struct str group, int depth)
{
	static const char key[] = "params";
	struct str raw = python_raw(f, group);
	const char *at = memmem(raw.at, raw.length, key, strlen(key));
	size_t value = at ? (size_t)(at - raw.at) + strlen(key) + 1 : group.length;

	value = value < group.length ? python_skip_blanks(group, value) : group.length;
	if (value >= group.length || group.at[value] != ':')
		o->unknown = 1;
	else
		add_expression(
			o, f,
			python_part(group, value + 1,
				    python_find_outside(python_part(group, 0, group.length - 1),
							value + 1, ",")),
			depth + 1);
}

/* Adds the parts of each element of a list, or of a sum of lists. */
static void add_elements(struct optimized *o, const struct python_file *f, struct str list,
			 const char *separator, int depth)
{
	for (size_t at = 0, end; at < list.length; at = end + 1) {
		end = python_find_outside(list, at, separator);
		add_expression(o, f, python_part(list, at, end), depth + 1);
	}
}

/* What an optimizer gets, or a part of it. What is not understood makes the parts unknown. */
static void add_expression(struct optimized *o, const struct python_file *f, struct str text,
			   int depth)
{
	static const char *const lists[] = {
		"", "list", "tuple", "chain", "itertools.chain", NULL
	};
	size_t open = 0, name;

	text = python_trimmed(text);
	while (text.length && *text.at == '*')
		text = python_trimmed(python_part(text, 1, text.length));
	if (!text.length || depth > MOST_DEPTH) {
		o->unknown |= text.length > 0;
		return;
	}
	if (python_find_outside(text, 0, "+") < text.length) {
		add_elements(o, f, text, "+", depth);
		return;
	}
	while (open < text.length && (python_is_name(text.at[open]) || text.at[open] == '.'))
		open++;
	if (open < text.length && strchr("([{", text.at[open]) &&
	    python_behind_bracket(text, open) == text.length) {
		struct str inside = python_part(text, open + 1, text.length - 1);

		if (text.at[open] == '{') {
			add_group(o, f, text, depth);
			return;
		}
		if (python_matches_any(python_part(text, 0, open), lists) &&
		    !python_has_word(inside, WORD("for"))) {
			add_elements(o, f, inside, ",", depth);
			return;
		}
	}
	if (add_parts(o, f, text))
		return;
	/* `groups`, `self.groups`, `head_parameters(model)` */
	name = python_begin_of_name(text, open);
	if (name < open)
		add_name(o, f, python_part(text, name, open), depth);
	else
		o->unknown = 1;
}

/* What an optimizer gets: the first argument of its call. */
static void add_argument(struct optimized *o, const struct python_file *f, struct str arguments)
{
	size_t begin = python_skip_blanks(arguments, 0);
	size_t key = python_end_of_name(arguments, begin),
	       value = python_skip_blanks(arguments, key);

	if (str_matches(python_part(arguments, begin, key), "params") && value < arguments.length &&
	    arguments.at[value] == '=')
		begin = value + 1;
	add_expression(
		o, f, python_part(arguments, begin, python_find_outside(arguments, begin, ",")), 0);
}

/* Does a statement use parameters without giving them to an optimizer? */
static int only_looks(struct str statement)
{
	static const struct str words[] = {
		WORD("clip_grad_norm_"),
		WORD("clip_grad_norm"),
		WORD("clip_grad_value_"),
		WORD("requires_grad"),
		WORD("numel"),
		WORD("grad"),
		WORD("zip"),
		WORD("next"),
		WORD("element_size"),
		WORD("norm"),
		WORD("print"),
		WORD("for"),
	};

	return python_has_any(statement, words, ARRAY_SIZE(words));
}

/* Adds X of each X.parameters() that a call takes whose function is not known: it may make an
 * optimizer. */
static void add_all_passed(struct optimized *o, const struct tables *t, const struct python_file *f)
{
	struct str text = python_whole(f);
	size_t found = 0;

	for (size_t at = 0;
	     !o->unknown && (at = python_find_word(text, at, WORD("parameters"))) < text.length;
	     at++) {
		if (!at || text.at[at - 1] != '.' || only_looks(python_statement_at(f, at)) ||
		    conditions_at(t, f, at) == IS_FALSE)
			continue;
		if (++found > MOST_CALLS) {
			o->unknown = 1;
			return;
		}
		add_part(o, f, text, at - 1);
	}
}

/* Is it a name like build_optimizer? */
static int may_be_maker(struct str name)
{
	static const char *const patterns[] = { "*_optim*", "optim*_for*", NULL };
	static const char *const others[] = { "*zero*", "*step*", "optimizers", "*state*", NULL };

	return python_matches_any(name, patterns) && !python_matches_any(name, others);
}

/* Is it a call of a function that the file does not define, and that may make an optimizer of a
 * model? */
static int may_make_one(const struct python_file *f, struct str name)
{
	struct str text = python_whole(f);

	if (!may_be_maker(name))
		return 0;
	for (size_t at = 0; (at = python_find_word(text, at, name)) < text.length; at++)
		if (function_at(f, at).length)
			return 0;
	return 1;
}

/* A call, whose bracket is at `open`. */
static void add_call(struct optimized *o, const struct python_file *f, size_t open)
{
	struct str text = python_whole(f);
	struct str name = python_part(text, python_begin_of_name(text, open), open);
	size_t close = python_behind_bracket(text, open);
	struct str arguments = python_part(text, open + 1, close > open + 1 ? close - 1 : open + 1);

	if (optimized_is_class(name))
		add_argument(o, f, arguments);
	else if (!python_has_word(arguments, WORD("parameters")) && arguments.length &&
		 may_make_one(f, name))
		o->unknown = 1;
}

/* The element of that number, from 0, of a list of names with commas; empty: it is no name. */
static struct str element_of(struct str list, size_t number)
{
	size_t begin = 0, end;

	for (size_t i = 0; i < list.length && number; i++)
		if (list.at[i] == ',') {
			begin = i + 1;
			number--;
		}
	begin = python_skip_blanks(list, begin);
	for (end = begin;
	     end < list.length && (python_is_name(list.at[end]) || list.at[end] == '.');)
		end++;
	return number ? python_part(list, 0, 0) : python_part(list, begin, end);
}

/* Adds the name that an assignment gives to what wraps a trained part, whose name is at `at` of the
 * file: `model, o = prepare(net, o)`. */
static void add_wrapped(struct optimized *o, const struct python_file *f, size_t at)
{
	static const char *const wrappers[] = { "DDP",          "*DataParallel", "FSDP*",
						"compile",      "prepare",       "setup",
						"setup_module", "script",        NULL };
	struct str statement = python_statement_at(f, at), target = python_target(statement), name;
	size_t open = target.length, number = 0;

	at -= (size_t)(statement.at - f->text);
	while (open < statement.length && statement.at[open] != '(')
		open++;
	name = python_part(statement, python_begin_of_name(statement, open), open);
	if (!target.length || at < open || !python_matches_any(name, wrappers))
		return;
	for (size_t i = open; i < at; i++)
		number += statement.at[i] == ',';
	name = element_of(target, memchr(target.at, ',', target.length) ? number : 0);
	if (name.length)
		add_part(o, f, python_whole(f), (size_t)(name.at - f->text) + name.length);
}

static void add_all_wrapped(struct optimized *o, const struct python_file *f)
{
	size_t count = o->trained.count;

	for (size_t i = 0; i < count; i++) {
		struct str name = o->trained.list[i].name;
		size_t found = 0;

		for (size_t at = 0;
		     (at = python_find_word(python_whole(f), at, name)) < f->length &&
		     found < MOST_CALLS;
		     at++, found++)
			add_wrapped(o, f, at);
	}
}

void optimized_add(struct optimized *o, const struct tables *t, const struct python_file *f)
{
	size_t calls = 0;

	for (size_t at = 0; at < f->length && !o->unknown; at++) {
		struct str name, statement;

		if (f->text[at] != '(')
			continue;
		name = python_part(python_whole(f), python_begin_of_name(python_whole(f), at), at);
		if (!optimized_is_class(name) && !may_be_maker(name))
			continue;
		if (++calls > MOST_CALLS) {
			o->unknown = 1;
			break;
		}
		statement = python_statement_at(f, at);
		if (str_matches(statement, "class *") || str_matches(statement, "def *") ||
		    conditions_at(t, f, at) == IS_FALSE)
			continue;
		add_call(o, f, at);
	}
	add_all_passed(o, t, f);
	add_all_wrapped(o, f);
}

void optimized_end(struct optimized *o)
{
	/* Two groups of one optimizer: what a condition takes, and what it leaves. */
	for (size_t i = 0; i < o->left_out.count; i++)
		o->unknown |= model_parts_has(&o->trained, o->left_out.list[i].name, 1);
	/* Of what is trained as a whole, a part says nothing of the others. */
	for (size_t i = 0; i < o->trained.count; i++)
		for (size_t k = 0; k < o->trained.count; k++) {
			struct str owner = o->trained.list[i].owner, name = o->trained.list[k].name;

			o->unknown |= owner.length && owner.length == name.length &&
				      !memcmp(owner.at, name.at, name.length);
		}
}
