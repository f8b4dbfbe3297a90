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

static int is_separator(char c)
{
	return c == '/' || c == '\\';
}

const char *last_name(const char *path)
{
	const char *last = path;

	for (; *path; path++)
		if (is_separator(*path))
			last = path + 1;
	return last;
}

/* A name that the job gave. Most have no separator. */
static void keep_name(struct redaction *hide, const char *name)
{
	if (last_name(name) == name)
		return;
	for (size_t i = 0; i < hide->kept_count; i++)
		if (!strcmp(hide->kept[i], name))
			return;
	hide->kept = grow(hide->kept, hide->kept_count, &hide->kept_room, sizeof(*hide->kept));
	hide->kept[hide->kept_count++] = name;
}

/* The directories of the trace, as they were named. "/" and "../" say nothing. */
static void add_directories(struct redaction *hide, const char *trace)
{
	char *path = xasprintf("%.*s", (int)(last_name(trace) - trace), trace);

	if (path[strspn(path, "./\\")])
		add_word(hide, path);
	free(path);
}

void redaction_of(struct redaction *hide, const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct rank *x = &r->ranks[i];

		add_word(hide, x->host);
		add_word(hide, x->command);
		if (x->trace)
			add_directories(hide, x->trace);
		for (size_t k = 0; k < x->named_count; k++)
			keep_name(hide, x->named[k].name);
		for (size_t k = 0; k < x->moment_count; k++)
			keep_name(hide, x->moments[k].name);
	}
	if (hide->count)
		qsort(hide->words, hide->count, sizeof(*hide->words), longest_first);
}

void redaction_release(struct redaction *hide)
{
	for (size_t i = 0; i < hide->count; i++)
		free(hide->words[i]);
	free(hide->words);
	free(hide->kept);
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

/* Returns where the characters that a path can have end; its last file name begins at
 * `*directories`. */
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

/* Is it a name that is kept, of the page's own or of the job's? */
static size_t kept_name(const struct redaction *hide, const struct buf *text, size_t at)
{
	static const char *const own[] = { "key/value" };
	size_t count = ARRAY_SIZE(own) + hide->kept_count;

	for (size_t i = 0; i < count; i++) {
		const char *name = i < ARRAY_SIZE(own) ? own[i] : hide->kept[i - ARRAY_SIZE(own)];
		size_t n = strlen(name);

		if (!strncmp(text->text + at, name, n) && !is_path_character(text->text[at + n]))
			return n;
	}
	return 0;
}

/*
 * The length of the directories of a relative path that begins here; 0: none does. A fraction and
 * an option are none; of an option's value the path begins behind the "=".
 */
static size_t relative_directories(const struct buf *text, size_t at, size_t word)
{
	const char *s = text->text + at;
	size_t directory = 0, length = 0;
	int is_number = 1;

	if ((at != word && s[-1] != '=') || *s == '-')
		return 0;
	for (; is_path_character(s[length]) && s[length] != '='; length++) {
		if (is_separator(s[length]))
			directory = length + 1;
		else
			is_number &= s[length] == '.' || (s[length] >= '0' && s[length] <= '9');
	}
	return is_number ? 0 : directory;
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

/* The length of the directories of a path that begins here; 0: none does. Before `*seen` no other
 * one begins. */
static size_t path_directories(const struct redaction *hide, const struct buf *text, size_t at,
			       size_t word, size_t *seen)
{
	size_t length;

	if (begins_path(text, at, word)) {
		size_t drive = text->text[at + 1] == ':' ? 2 : 0;

		length = directories(text, at + drive, seen);
		return length ? drive + length : 0;
	}
	length = at == word ? kept_name(hide, text, at) : 0;
	if (!length)
		return relative_directories(text, at, word);
	*seen = at + length;
	return 0;
}

void redact_path(const struct redaction *hide, struct buf *text)
{
	struct buf name = { 0 };

	if (!hide || !text->length)
		return;
	buf_puts(&name, last_name(text->text));
	buf_release(text);
	*text = name;
	redact(hide, text);
}

void redact_stack(const struct redaction *hide, struct buf *text)
{
	struct buf out = { 0 };
	const char *frame = text->text, *end;

	if (!hide || !text->length)
		return;
	for (; *frame; frame = end) {
		const char *file = frame, *name = frame;
		int has_function = 0;

		for (end = frame; *end && (end == frame || end[-1] != ';'); end++) {
			if (!has_function && *end == ' ') {
				has_function = 1;
				file = name = end + 1;
			}
			if (is_separator(*end))
				name = end + 1;
		}
		buf_add(&out, frame, (size_t)(file - frame));
		buf_add(&out, name, (size_t)(end - name));
	}
	buf_release(text);
	*text = out;
	redact(hide, text);
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
		if (!found && i >= seen)
			skip = path_directories(hide, text, i, word, &seen);
		if (found) {
			buf_puts(&out, is_separator(found[strlen(found) - 1]) ? "" : "(redacted)");
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
