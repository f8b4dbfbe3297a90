#include "util/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "util/buf.h"

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
