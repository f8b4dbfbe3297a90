/* A JSON or YAML document as one kind of tree, each value with its line. */
#ifndef CONFIG_NODE_H
#define CONFIG_NODE_H

#include <stddef.h>

#include "util/err.h"

enum node_kind { NODE_NULL, NODE_BOOL, NODE_NUMBER, NODE_STRING, NODE_MAP, NODE_LIST };

struct node {
	enum node_kind kind;
	unsigned line;
	char *key;          /* in a map, else NULL */
	char *text;         /* a scalar as text */
	struct node *first; /* of a map or list */
	struct node *next;
};

#define NODE_DEPTH_MOST 100 /* deeper than any configuration */
#define NODE_KEY_MOST 4096  /* bytes */

/* `name` is for messages. NULL: the message names file and line. */
struct node *node_read_json(const char *text, size_t length, const char *name, struct err *e);
struct node *node_read_yaml(const char *text, size_t length, const char *name, struct err *e);
struct node *node_new(enum node_kind kind, unsigned line);
void node_free(struct node *n);

const struct node *node_find(const struct node *map, const char *key);
const char *node_kind_name(enum node_kind kind);

#endif
