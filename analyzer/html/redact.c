#include "html/redact.h"

#include <stdlib.h>
#include <string.h>

static void add_word(struct redaction *hide, const char *word)
{
	if (!word || !*word)
		return;
	for (size_t i = 0; i < hide->count; i++)
		if (!strcmp(hide->words[i], word))
			return;
	hide->words = grow(hide->words, hide->count, &hide->room, sizeof(*hide->words));
	hide->words[hide->count++] = xstrdup(word);
}

static int longest_first(const void *a, const void *b)
{
	size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);

	return x < y ? 1 : -(x > y);
}

void redaction_of(struct redaction *hide, const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		add_word(hide, r->ranks[i].host);
		add_word(hide, r->ranks[i].command);
	}
	if (hide->count)
		qsort(hide->words, hide->count, sizeof(*hide->words), longest_first);
}

void redaction_release(struct redaction *hide)
{
	for (size_t i = 0; i < hide->count; i++)
		free(hide->words[i]);
	free(hide->words);
	*hide = (struct redaction){ 0 };
}

void redaction_add_user(struct redaction *hide, const char *name)
{
	static const char *const services[] = { "root", "user", "ubuntu", "runner", "nobody" };

	for (size_t i = 0; i < ARRAY_SIZE(services); i++)
		if (name && !strcmp(name, services[i]))
			return;
	if (!name || strlen(name) < 2)
		return;
	add_word(hide, name);
	qsort(hide->words, hide->count, sizeof(*hide->words), longest_first);
}

static int is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static int is_separator(char c)
{
	return c == '/' || c == '\\';
}

void redaction_learn(struct redaction *hide, const char *text, size_t length)
{
	static const char *const homes[] = { "home", "Users" };

	for (size_t i = 1; i < length; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(homes); k++) {
			size_t n = strlen(homes[k]), from = i + n, end;
			char *name;

			if (!is_separator(text[i - 1]) || from >= length ||
			    strncmp(text + i, homes[k], n) || !is_separator(text[from]))
				continue;
			/* In JSON a backslash is two. */
			while (from < length && is_separator(text[from]))
				from++;
			for (end = from; end < length && !is_separator(text[end]) &&
					 (unsigned char)text[end] >= ' ' && text[end] != '"';
			     end++)
				;
			if (end == length || !is_separator(text[end]) || end - from > 64)
				continue;
			name = xasprintf("%.*s", (int)(end - from), text + from);
			redaction_add_user(hide, name);
			free(name);
		}
	}
}

static int is_path_character(char c)
{
	return (unsigned char)c >= 0x80 || is_letter_or_digit(c) || (c && strchr("._-+@~=/\\", c));
}

/* Where a run of characters of paths ends. `*directories`: where its last file name begins. */
static size_t end_of_run(const struct buf *text, size_t from, size_t *directories)
{
	size_t i = from;

	for (; i < text->length && is_path_character(text->text[i]); i++)
		if (is_separator(text->text[i]))
			*directories = i + 1;
	return i;
}

#define WORDS_OF_A_NAME 4 /* of a folder whose name has spaces */

/*
 * The length of the directories at the start of a path; 0: it is none. `*end` is where it is known
 * to end. A folder's name can have spaces: if a separator follows inside one of the next words, the
 * path goes on to there. A word that begins with a separator is another path.
 */
static size_t directories(const struct buf *text, size_t from, size_t *end)
{
	size_t file = from, i = *end = end_of_run(text, from, &file);

	if (file == from)
		return 0;
	for (int words = 0; words < WORDS_OF_A_NAME && i + 1 < text->length; words++) {
		size_t next = i + 1, inner = next;

		if (text->text[i] != ' ' || !is_path_character(text->text[next]) ||
		    is_separator(text->text[next]) || text->text[next] == '-')
			break;
		i = end_of_run(text, next, &inner);
		if (inner != next) {
			file = inner;
			*end = i;
			words = -1;
		}
	}
	return file - from;
}

/* Does a path begin here? `word`: where the run of characters begins that this one is in. */
static int begins_path(const struct buf *text, size_t at, size_t word)
{
	const char *s = text->text + at;
	int is_first = at == word || s[-1] == '=';

	if (is_first && (*s == '/' || *s == '~' || *s == '.' || (*s == '\\' && s[1] == '\\')))
		return 1;
	/* C:\dir. A text ends with a zero. */
	if (is_first && is_letter_or_digit(*s) && s[1] == ':' && is_separator(s[2]))
		return 1;
	/* -I/dir */
	return *s == '/' && text->text[word] == '-' && !memchr(text->text + word, '/', at - word);
}

/* Is it there as a word of its own, and not as a part of a longer one? */
static const char *word_at(const struct redaction *hide, const struct buf *text, size_t at)
{
	const char *s = text->text + at;

	if (at && is_letter_or_digit(s[-1]) && is_letter_or_digit(*s))
		return NULL;
	for (size_t i = 0; i < hide->count; i++) {
		size_t n = strlen(hide->words[i]);

		if (*hide->words[i] == *s && !strncmp(s, hide->words[i], n) &&
		    !(is_letter_or_digit(s[n]) && is_letter_or_digit(s[n - 1])))
			return hide->words[i];
	}
	return NULL;
}

void redact(const struct redaction *hide, struct buf *text)
{
	struct buf out = { 0 };
	size_t seen = 0; /* no directory follows before this place */
	size_t word = 0;

	if (!hide || !text->length)
		return;
	for (size_t i = 0; i < text->length;) {
		const char *found = word_at(hide, text, i);
		size_t skip = 0;

		if (!i || !is_path_character(text->text[i - 1]))
			word = i;
		if (!found && i >= seen && begins_path(text, i, word)) {
			size_t drive = text->text[i + 1] == ':' ? 2 : 0;
			size_t behind = directories(text, i + drive, &seen);

			skip = behind ? drive + behind : 0;
		}
		if (found) {
			buf_puts(&out, "(redacted)");
			i += strlen(found);
		} else if (skip) {
			i += skip;
		} else {
			buf_add(&out, text->text + i, 1);
			i++;
		}
	}
	buf_release(text);
	*text = out;
}
