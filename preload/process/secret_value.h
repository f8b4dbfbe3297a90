/* Reads a text that may contain secrets, and finds where the values in it end. */
#ifndef PRELOAD_SECRET_VALUE_H
#define PRELOAD_SECRET_VALUE_H

#include <string.h>

#include "process/secret.h"
#include "process/secret_name.h"

#define MAX_NAME 128 /* characters before a separator that are looked at */

/* A walk over a text: what is before `at` is copied. */
struct walk {
	const char *text;
	size_t n, at;
	struct masked *out;
	int is_file;
	char quote;    /* the one that is open on this line */
	unsigned flow; /* open brackets of JSON and of YAML's flow style */
	int in_comment;
};

/* A part of the text. */
struct part {
	size_t begin, end;
};

static inline int is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static inline int is_blank(char c)
{
	return is_one_of(c, " \t\r");
}

static inline size_t skip_blanks(const struct walk *w, size_t p)
{
	while (p < w->n && is_blank(w->text[p]))
		p++;
	return p;
}

/* Does an unquoted value of YAML begin at P? Three asterisks there would be read as an alias. */
int is_plain_start(const struct walk *w, size_t p);

/* The end of the unquoted value in which P lies; as a key, it ends before its colon. */
size_t plain_end(const struct walk *w, size_t p, int as_key);

/* A word inside of a text: up to what separates words. */
size_t word_end(const struct walk *w, size_t p);

/* The quote that opens at P, behind a backslash too (JSON inside of JSON): how long it is, or 0. */
size_t opening(const struct walk *w, size_t p);

/* The value that begins at V behind the separator at P, which belongs to NAME; empty if there is
 * none that could be hidden. */
struct part value_at(const struct walk *w, struct part name, struct name kind, size_t p, size_t v);

#endif
