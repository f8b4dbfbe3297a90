#include "util/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

void add_json_string(struct buf *b, struct str text)
{
	struct buf clean = { 0 };

	buf_add_utf8(&clean, text);
	buf_puts(b, "\"");
	for (size_t i = 0; i < clean.length; i++) {
		unsigned char c = (unsigned char)clean.text[i];

		if (c < ' ')
			buf_addf(b, "\\u%04x", c);
		else
			buf_addf(b, c == '"' || c == '\\' ? "\\%c" : "%c", c);
	}
	buf_puts(b, "\"");
	buf_release(&clean);
}

static char *utf8(const char *text)
{
	struct buf clean = { 0 };

	buf_add_utf8(&clean, (struct str){ text, strlen(text) });
	return buf_take(&clean);
}

void json_set_text(json_t *object, const char *key, const char *text)
{
	char *clean_key = utf8(key), *clean = utf8(text);

	json_object_set_new_nocheck(object, clean_key, json_string_nocheck(clean));
	free(clean_key);
	free(clean);
}
