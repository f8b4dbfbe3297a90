/* Masks secrets: values that look like one, or that stand under a secret's name. The command line,
 * the environment and the declared configuration pass through here before they are stored. */
#ifndef PRELOAD_SECRET_H
#define PRELOAD_SECRET_H

#include <stddef.h>

/* The masked text. */
struct masked {
	char *s;
	size_t n, room;
	int cut; /* the text did not fit */
};

/* A value under the name of its variable or option; "" for none. */
void secret_mask_value(struct masked *out, const char *name, const char *value, size_t n);

/* Arguments that are separated by zeros; the values of `--token A B` are arguments of their own. */
void secret_mask_arguments(struct masked *out, const char *line, size_t n);

/* A JSON, YAML or other file, line by line; what could be parsed still can be. */
void secret_mask_file(struct masked *out, const char *text, size_t n);

#endif
