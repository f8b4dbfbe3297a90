/* A JSON or YAML document as one kind of tree, each value with its line. */
#ifndef CONFIG_NODE_H
#define CONFIG_NODE_H

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

/* `name` is for messages. NULL: the message names file and line. */
struct doc_node *doc_read_json(const char *text, size_t length, const char *name, struct err *e);
struct doc_node *doc_read_yaml(const char *text, size_t length, const char *name, struct err *e);
struct doc_node *doc_node_new(enum doc_kind kind, unsigned line);
void doc_free(struct doc_node *n);

const struct doc_node *doc_find(const struct doc_node *map, const char *key);
const char *doc_kind_name(enum doc_kind kind);

#endif
