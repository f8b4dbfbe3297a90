#include "simulate/command_template.h"

#include "util/buf.h"

#include <stdlib.h>
#include <string.h>

int template_has(char *const *command, const char *key)
{
	char *name = xasprintf("{%s}", key);
	int found = 0;

	for (; *command && !found; command++)
		found = strstr(*command, name) != NULL;
	free(name);
	return found;
}

static char *replace(const char *text, const char *name, const char *value)
{
	struct buf b = { 0 };
	const char *at;

	while ((at = strstr(text, name))) {
		buf_add(&b, text, (size_t)(at - text));
		buf_puts(&b, value);
		text = at + strlen(name);
	}
	buf_puts(&b, text);
	return buf_take(&b);
}

static char *fill_word(const char *word, const struct placeholder *placeholders, size_t count)
{
	char *filled = xstrdup(word);

	for (size_t i = 0; i < count; i++) {
		char *name = xasprintf("{%s}", placeholders[i].key);
		char *next = replace(filled, name, placeholders[i].value);

		free(filled);
		free(name);
		filled = next;
	}
	return filled;
}

char **template_fill(char *const *command, const struct placeholder *placeholders, size_t count)
{
	size_t words = 0, n = 0;
	char **filled;

	while (command[words])
		words++;
	filled = xcalloc(words + 1, sizeof(*filled));
	for (size_t i = 0; i < words; i++) {
		char *word = fill_word(command[i], placeholders, count);

		if (*word || !*command[i])
			filled[n++] = word;
		else
			free(word);
	}
	return filled;
}

void template_release(char **words)
{
	for (size_t i = 0; words[i]; i++)
		free(words[i]);
	free(words);
}
