#include "util/shell.h"

#include <string.h>

static int is_plain(struct str word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

	for (size_t i = 0; i < word.length; i++)
		if (!word.at[i] || !strchr(plain, word.at[i]))
			return 0;
	return word.length != 0;
}

void shell_add_word(struct buf *b, struct str word)
{
	if (is_plain(word)) {
		buf_add(b, word.at, word.length);
		return;
	}
	buf_puts(b, "'");
	for (size_t i = 0; i < word.length; i++)
		word.at[i] == '\'' ? buf_puts(b, "'\\''") : buf_add(b, &word.at[i], 1);
	buf_puts(b, "'");
}

void shell_add_path(struct buf *b, const char *path)
{
	struct buf safe = { 0 };

	buf_add_clean(&safe, (struct str){ path, strlen(path) });
	shell_add_word(b, (struct str){ safe.text, safe.length });
	buf_release(&safe);
}
