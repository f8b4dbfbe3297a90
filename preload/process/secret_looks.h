/* The two ways to recognise a secret: by the name before it, and by its own form. */
#ifndef PRELOAD_SECRET_LOOKS_H
#define PRELOAD_SECRET_LOOKS_H

#include <stddef.h>

/* What a name implies for its value. */
enum name_kind {
	NAME_NOTHING,
	NAME_OPEN,  /* a JSON text in base64 is no secret */
	NAME_SHORT, /* -k: a secret if it looks random */
	NAME_KEY,   /* some key: a secret if it is long and looks random */
	NAME_LONE,  /* "key" alone: a secret unless it is a word */
	NAME_SECRET
};

/* Values that stay though the name is a secret's. */
enum { NAME_KEEPS_NUMBERS = 1, NAME_KEEPS_PATHS = 2, NAME_KEEPS_MARKS = 4 };

struct name {
	enum name_kind kind;
	unsigned keeps; /* of NAME_SECRET */
};

struct name name_of(const char *s, size_t n);

/* Is the value V one, under that name? */
int name_hides(struct name name, const char *v, size_t n);

/* Is the value V none, though it may look so? */
int name_shows(struct name name, const char *v, size_t n);

/* Where the secret ends whose looks begin at P of the text, or P. *begin is moved where what comes
 * first stays ("Bearer", a URL's user). */
size_t looks_end(const char *text, size_t n, size_t p, size_t *begin);

/* Is there a run of at least LEAST letters and digits, without a break, that no one would make up?
 */
int looks_random(const char *v, size_t n, size_t least);

/* Where V names another place for the value: ${TOKEN}, $TOKEN. */
int looks_referring(const char *v, size_t n);

#endif
