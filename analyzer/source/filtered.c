#define _GNU_SOURCE
#include "source/filtered.h"

#include "util/glob.h"

#include <string.h>

struct filter {
	struct str name;
	int is_begin; /* of the parameter's name; else anywhere in it */
	int is_not;
};

/* The condition of the comprehension that goes on at `at`, up to its bracket's end; empty: there
 * is none. */
static struct str condition_at(struct str text, size_t at)
{
	size_t end = python_find_outside(text, at, ")]}:");

	return python_part(text, python_find_word(python_part(text, 0, end), at, WORD("if")), end);
}

static int is_in_quotes(char c)
{
	return c == '"' || c == '\'';
}

/* The only text in quotes of a condition, without dots around it; empty: there is none, there are
 * several, or it is no name. */
static struct str quoted_name(const struct python_file *f, struct str condition)
{
	struct str raw = python_raw(f, condition), none = python_part(condition, 0, 0);
	size_t begin = 0, end;

	while (begin < condition.length && !is_in_quotes(condition.at[begin]))
		begin++;
	for (end = ++begin; end < condition.length && !is_in_quotes(condition.at[end]);)
		end++;
	if (end >= condition.length)
		return none;
	for (size_t i = end + 1; i < condition.length; i++)
		if (is_in_quotes(condition.at[i]))
			return none;
	while (begin < end && raw.at[begin] == '.')
		begin++;
	while (begin < end && raw.at[end - 1] == '.')
		end--;
	return python_end_of_name(raw, begin) == end ? python_part(raw, begin, end) : none;
}

static int parse(struct filter *filter, const struct python_file *f, struct str condition)
{
	static const char *const others[] = { "any", "all", "or", "endswith", NULL };

	for (const char *const *word = others; *word; word++)
		if (python_has_word(condition, (struct str){ *word, strlen(*word) }))
			return 0;
	*filter = (struct filter){ quoted_name(f, condition),
				   python_has_word(condition, WORD("startswith")),
				   python_has_word(condition, WORD("not")) };
	return filter->name.length && (filter->is_begin || python_has_word(condition, WORD("in")));
}

static int passes(const struct filter *filter, struct str name)
{
	if (name.length < filter->name.length)
		return 0;
	return filter->is_begin
		       ? !memcmp(name.at, filter->name.at, filter->name.length)
		       : memmem(name.at, name.length, filter->name.at, filter->name.length) != NULL;
}

int filtered_add(struct optimized *o, const struct python_file *f, struct str text, size_t at)
{
	struct str all = python_whole(f);
	struct filter filter;
	size_t behind = at;
	int found = 0;

	while (behind < text.length && text.at[behind] != '(')
		behind++;
	behind = python_behind_bracket(text, behind);
	if (!parse(&filter, f, condition_at(text, behind)))
		return 0;
	/* The attributes of the job's own modules are the first parts of the names. */
	for (size_t i = 0; (i = python_find_word(all, i, WORD("self"))) < all.length; i++) {
		size_t begin = i + strlen("self."), end = python_end_of_name(all, begin);
		struct str target = python_target(python_statement_at(f, i));
		struct str name = python_part(all, begin, end);

		if (end == begin || all.at + i >= target.at + target.length ||
		    !passes(&filter, name))
			continue;
		found |= model_parts_add(filter.is_not ? &o->left_out : &o->trained,
					 (struct model_part){ .name = name, .is_attribute = 1 });
	}
	return found;
}
