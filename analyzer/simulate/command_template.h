/* A command with placeholders: `{key}` in its words stands for a value. */
#ifndef MEMTRACE_COMMAND_TEMPLATE_H
#define MEMTRACE_COMMAND_TEMPLATE_H

#include <stddef.h>

/* `{key}` is replaced by `value`. */
struct placeholder {
	const char *key, *value;
};

/* Does a word of the command have `{key}`? */
int template_has(char *const *command, const char *key);
/* The command with its placeholders filled, for template_release(). A word that becomes empty is
 * dropped, so that an empty value can remove an option. */
char **template_fill(char *const *command, const struct placeholder *placeholders, size_t count);
void template_release(char **words);

#endif
