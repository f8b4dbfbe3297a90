/* Recognises a secret by the name before it. */
#ifndef PRELOAD_SECRET_NAME_H
#define PRELOAD_SECRET_NAME_H

#include <stddef.h>

/* The kind of value that a name implies. */
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

/* Is the value V a secret under that name? */
int name_hides(struct name name, const char *v, size_t n);

/* Is the value V no secret under that name, though it may look like one? */
int name_shows(struct name name, const char *v, size_t n);

#endif
