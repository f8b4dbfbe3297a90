/* A JSON or YAML document as one kind of tree, each value with its line. */
#ifndef CONFIG_DOCUMENT_H
#define CONFIG_DOCUMENT_H

#include <stddef.h>

#include "util/err.h"

enum doc_kind { DOC_NULL, DOC_BOOL, DOC_NUMBER, DOC_STRING, DOC_MAP, DOC_LIST };

struct doc_node {
	enum doc_kind kind;
	unsigned line;
	char *key;          /* in a map, else NULL */
	char *text;         /* a scalar as text */
	struct doc_node *first; /* of a map or list */
	struct doc_node *next;
};

#define DOC_DEPTH_MOST 100 /* deeper than any configuration */
#define DOC_KEY_MOST 4096  /* bytes */

/* The text of a whole file, to be freed. NULL: the message says why. */
char *doc_file_text(const char *path, size_t *length, struct err *e);

/* Parses a text; `name` is the file's name in messages. NULL: the message names file and line. Freed by
 * doc_free(). */
struct doc_node *doc_read_json(const char *text, size_t length, const char *name, struct err *e);
struct doc_node *doc_read_yaml(const char *text, size_t length, const char *name, struct err *e);
struct doc_node *doc_node_new(enum doc_kind kind, unsigned line);
void doc_free(struct doc_node *n);

const struct doc_node *doc_find(const struct doc_node *map, const char *key);
const char *doc_kind_name(enum doc_kind kind);

#endif
