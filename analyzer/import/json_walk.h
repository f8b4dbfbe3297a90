/*
 * The members of a JSON object and the elements of an array, one after the other. They are parts
 * of the text: nothing is built, however many there are. Of a member that is passed over, only the
 * end is checked.
 */
#ifndef MEMTRACE_IMPORT_JSON_WALK_H
#define MEMTRACE_IMPORT_JSON_WALK_H

#include "util/buf.h"

struct json_walk {
	const char *at, *end;
	char close; /* of the object or array; 0: the text is neither */
	int is_first;
};

/* Begins within the text of a value. */
void json_walk_begin(struct json_walk *w, struct str text);
/* Takes the next element, or member with its key (as it stands between the quotes). Returns 1; 0:
 * there is no further one; -1: the text is damaged. `key` is NULL for an array. */
int json_walk_next(struct json_walk *w, struct str *key, struct str *value);
/* Looks up `count` keys. A missing key is empty, and so are all if the text is no object. Returns
 * 0, or -1: the text is damaged. */
int json_walk_members(struct str object, const char *const *keys, struct str *values, size_t count);

/* Is the value this text? Without escapes. */
int json_walk_is_text(struct str value, const char *text);
/* Is the value an integer of 64 bits? */
int json_walk_integer(struct str value, int64_t *to);
/* The text of a value as UTF-8, of which `most` bytes are read; nothing if it is no text. */
void json_walk_add_text(struct buf *to, struct str value, size_t most);

#endif
