/* A JSON or YAML document as a tree; every value has the number of its line. */
#ifndef MEMTRACE_DOCUMENT_H
#define MEMTRACE_DOCUMENT_H

#include <stdint.h>
#include <stddef.h>

#include "util/err.h"

enum doc_kind { DOC_NULL, DOC_BOOL, DOC_NUMBER, DOC_STRING, DOC_MAP, DOC_LIST };

struct doc_node {
	enum doc_kind kind;
	unsigned line;
	char *key;              /* of a member of a map; NULL otherwise */
	char *text;             /* of a scalar */
	struct doc_node *first; /* member of a map or list */
	struct doc_node *next;
};

#define MAX_DOC_DEPTH 100 /* levels; no configuration is nested as deep */
#define MAX_DOC_KEY 4096  /* bytes of a key */

/* The text of a whole file, to be freed. NULL: the message says why. */
char *doc_file_text(const char *path, size_t *length, struct err *e);

/* Parses a text. `name` stands for the file in messages. The tree is freed by doc_free(). NULL: it
 * is malformed; the message names the line. */
struct doc_node *doc_read_json(const char *text, size_t length, const char *name, struct err *e);
struct doc_node *doc_read_yaml(const char *text, size_t length, const char *name, struct err *e);
struct doc_node *doc_node_new(enum doc_kind kind, unsigned line);
void doc_free(struct doc_node *n);

/* The member of a map with that key; NULL: there is none, or `map` is no map. */
const struct doc_node *doc_find(const struct doc_node *map, const char *key);
/* The integer of that key; `other` if there is none. */
int64_t doc_number(const struct doc_node *map, const char *key, int64_t other);
/* A scalar as it is, a list as "[a,b]". To be freed. */
char *doc_text(const struct doc_node *n);
/* "a number", "an object" ... */
const char *doc_kind_name(enum doc_kind kind);

#endif
