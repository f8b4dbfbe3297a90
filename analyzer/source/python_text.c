#define _GNU_SOURCE
#include "source/python_text.h"

#include "util/glob.h"

#include <string.h>

#define MOST_AROUND 16              /* brackets around a text */
#define MOST_IN_BRACKETS (64 << 10) /* bytes: of longer ones the end is not looked for */

int python_is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

struct str python_part(struct str text, size_t from, size_t to)
{
	return (struct str){ text.at + from, to > from ? to - from : 0 };
}

size_t python_skip_blanks(struct str text, size_t at)
{
	while (at < text.length && strchr(" \t\r\n\\", text.at[at]))
		at++;
	return at;
}

struct str python_trimmed(struct str text)
{
	for (int brackets = 0; brackets < MOST_AROUND; brackets++) {
		size_t begin = python_skip_blanks(text, 0), end = text.length;

		while (end > begin && strchr(" \t\r\n", text.at[end - 1]))
			end--;
		text = python_part(text, begin, end);
		if (text.length < 2 || *text.at != '(' || text.at[text.length - 1] != ')' ||
		    python_behind_bracket(text, 0) != text.length)
			break;
		text = python_part(text, 1, text.length - 1);
	}
	return text;
}

size_t python_begin_of_name(struct str text, size_t end)
{
	while (end && python_is_name(text.at[end - 1]))
		end--;
	return end;
}

size_t python_end_of_name(struct str text, size_t begin)
{
	while (begin < text.length && python_is_name(text.at[begin]))
		begin++;
	return begin;
}

struct str python_next_name(struct str text, size_t *at)
{
	size_t begin = *at;

	while (begin < text.length && !python_is_name(text.at[begin]))
		begin++;
	*at = python_end_of_name(text, begin);
	return python_part(text, begin, *at);
}

size_t python_find_word(struct str text, size_t from, struct str name)
{
	while (from + name.length <= text.length) {
		const char *at = memmem(text.at + from, text.length - from, name.at, name.length);
		size_t place = at ? (size_t)(at - text.at) : text.length;

		if (!at || !name.length)
			return text.length;
		if (!(place && python_is_name(text.at[place - 1])) &&
		    !(place + name.length < text.length &&
		      python_is_name(text.at[place + name.length])))
			return place;
		from = place + 1;
	}
	return text.length;
}

int python_has_word(struct str text, struct str word)
{
	return python_find_word(text, 0, word) < text.length;
}

int python_matches_any(struct str text, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if (str_matches(text, *patterns))
			return 1;
	return 0;
}

int python_has_any(struct str text, const struct str *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (python_has_word(text, words[i]))
			return 1;
	return 0;
}

size_t python_find_outside(struct str text, size_t at, const char *chars)
{
	size_t depth = 0;

	for (; at < text.length; at++) {
		char c = text.at[at];

		if (!depth && c && strchr(chars, c))
			break;
		depth += c == '(' || c == '[' || c == '{';
		depth -= depth && (c == ')' || c == ']' || c == '}');
	}
	return at;
}

struct str python_target(struct str statement)
{
	size_t at = 0;

	while ((at = python_find_outside(statement, at, "=")) + 1 < statement.length) {
		int compares =
			statement.at[at + 1] == '=' || (at && strchr("=!<>", statement.at[at - 1]));

		if (!compares)
			return python_part(statement, 0, at);
		at += 2;
	}
	return python_part(statement, 0, 0);
}

size_t python_behind_bracket(struct str text, size_t open)
{
	size_t depth = 0;

	for (size_t i = open; i < text.length && i - open < MOST_IN_BRACKETS; i++) {
		char c = text.at[i];

		depth += c == '(' || c == '[' || c == '{';
		if (c == ')' || c == ']' || c == '}')
			if (!--depth)
				return i + 1;
	}
	return text.length;
}
