#include "config/node.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "util.h"

#define DEPTH 100         /* deeper than any configuration */
#define NODES_MOST 200000 /* a YAML alias can stand for any number of values */

const char *node_kind_name(enum node_kind kind)
{
	static const char *const names[] = { "null", "true or false", "a number",
					     "text", "an object",     "a list" };

	return names[kind];
}

void node_free(struct node *n)
{
	while (n) {
		struct node *next = n->next;

		node_free(n->first);
		free(n->key);
		free(n->text);
		free(n);
		n = next;
	}
}

const struct node *node_find(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (const struct node *n = map->first; n; n = n->next)
		if (n->key && !strcmp(n->key, key))
			return n;
	return NULL;
}

static struct node *node_new(enum node_kind kind, unsigned line)
{
	struct node *n = xcalloc(1, sizeof(*n));

	n->kind = kind;
	n->line = line;
	return n;
}

/* ---- JSON: jansson reads and judges; the text is walked beside its tree for the lines ---- */

struct walk {
	const char *at;
	unsigned line;
};

static void skip_space(struct walk *w)
{
	for (;; w->at++) {
		if (*w->at == '\n')
			w->line++;
		else if (!*w->at || !strchr(" \t\r,:", *w->at))
			return;
	}
}

static void skip_string(struct walk *w)
{
	for (w->at++; *w->at && *w->at != '"'; w->at++)
		if (*w->at == '\\' && w->at[1])
			w->at++;
	if (*w->at)
		w->at++;
}

static char *scalar_text(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_STRING:
		return xstrdup(json_string_value(value));
	case JSON_INTEGER:
		return xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	case JSON_REAL:
		return xasprintf("%.17g", json_real_value(value));
	case JSON_TRUE:
		return xstrdup("true");
	case JSON_FALSE:
		return xstrdup("false");
	default:
		return xstrdup("null");
	}
}

static struct node *from_json(json_t *value, struct walk *w);

static void json_members(struct node *n, json_t *value, struct walk *w)
{
	struct node **tail = &n->first;
	const char *key;
	json_t *child;
	size_t i;

	w->at++; /* the bracket */
	if (json_is_object(value)) {
		json_object_foreach(value, key, child)
		{
			skip_space(w);
			skip_string(w);
			*tail = from_json(child, w);
			(*tail)->key = xstrdup(key);
			tail = &(*tail)->next;
		}
	} else {
		json_array_foreach(value, i, child)
		{
			*tail = from_json(child, w);
			tail = &(*tail)->next;
		}
	}
	skip_space(w);
	w->at++;
}

static struct node *from_json(json_t *value, struct walk *w)
{
	static const enum node_kind kinds[] = {
		[JSON_OBJECT] = NODE_MAP,    [JSON_ARRAY] = NODE_LIST,
		[JSON_STRING] = NODE_STRING, [JSON_INTEGER] = NODE_NUMBER,
		[JSON_REAL] = NODE_NUMBER,   [JSON_TRUE] = NODE_BOOL,
		[JSON_FALSE] = NODE_BOOL,    [JSON_NULL] = NODE_NULL,
	};
	struct node *n;

	skip_space(w);
	n = node_new(kinds[json_typeof(value)], w->line);
	if (n->kind == NODE_MAP || n->kind == NODE_LIST) {
		json_members(n, value, w);
		return n;
	}
	n->text = scalar_text(value);
	if (n->kind == NODE_STRING)
		skip_string(w);
	else
		w->at += strcspn(w->at, ",]} \t\r\n");
	return n;
}

/* jansson's own limit is 2048; the walks here are recursive too. */
static unsigned json_depth(const char *text, size_t length)
{
	unsigned depth = 0, most = 0;
	int in_string = 0;

	for (size_t i = 0; i < length; i++) {
		if (in_string) {
			if (text[i] == '\\')
				i++;
			else if (text[i] == '"')
				in_string = 0;
		} else if (text[i] == '"') {
			in_string = 1;
		} else if (text[i] == '{' || text[i] == '[') {
			if (++depth > most)
				most = depth;
		} else if ((text[i] == '}' || text[i] == ']') && depth) {
			depth--;
		}
	}
	return most;
}

struct node *node_read_json(const char *text, size_t length, const char *name, struct err *e)
{
	json_error_t why;
	json_t *value;
	struct walk w = { text, 1 };
	struct node *n;

	if (json_depth(text, length) > DEPTH) {
		err_set(e, "%s: nested more than %d deep: not a configuration", name, DEPTH);
		return NULL;
	}
	value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
	if (!value) {
		err_set(e, "%s:%d: not JSON: %s", name, why.line < 0 ? 1 : why.line, why.text);
		return NULL;
	}
	n = from_json(value, &w);
	json_decref(value);
	return n;
}

/* ---- YAML ---- */

struct yaml_walk {
	yaml_document_t *document;
	const char *name;
	struct err *e;
	unsigned nodes;
};

/* The kinds of YAML 1.1's plain words that configurations use. */
static enum node_kind plain_kind(const char *text)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", "None" };
	static const char *const truths[] = { "true", "false", "yes", "no", "on", "off" };
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
		if (!strcmp(text, nulls[i]))
			return NODE_NULL;
	for (size_t i = 0; i < ARRAY_SIZE(truths); i++)
		if (!strcasecmp(text, truths[i]))
			return NODE_BOOL;
	if (strspn(text, "+-0123456789.eE_") == strlen(text)) {
		strtod(text, &end);
		if (!*end)
			return NODE_NUMBER;
	}
	return NODE_STRING;
}

static struct node *from_yaml(struct yaml_walk *w, int index, unsigned depth);

static int yaml_pair(struct yaml_walk *w, struct node ***tail, yaml_node_pair_t *pair,
		     unsigned depth, const struct node *map)
{
	yaml_node_t *key = yaml_document_get_node(w->document, pair->key);
	const char *text;

	if (key->type != YAML_SCALAR_NODE)
		return err_set(w->e, "%s:%zu: a key that is not text", w->name,
			       key->start_mark.line + 1);
	text = (const char *)key->data.scalar.value;
	if (node_find(map, text))
		return err_set(w->e, "%s:%zu: \"%.60s\" is given twice", w->name,
			       key->start_mark.line + 1, text);
	**tail = from_yaml(w, pair->value, depth + 1);
	if (!**tail)
		return -1;
	(**tail)->key = xstrdup(text);
	*tail = &(**tail)->next;
	return 0;
}

static int yaml_members(struct yaml_walk *w, struct node *n, yaml_node_t *at, unsigned depth)
{
	struct node **tail = &n->first;

	if (at->type == YAML_MAPPING_NODE) {
		for (yaml_node_pair_t *p = at->data.mapping.pairs.start;
		     p < at->data.mapping.pairs.top; p++)
			if (yaml_pair(w, &tail, p, depth, n))
				return -1;
		return 0;
	}
	for (yaml_node_item_t *i = at->data.sequence.items.start; i < at->data.sequence.items.top;
	     i++) {
		*tail = from_yaml(w, *i, depth + 1);
		if (!*tail)
			return -1;
		tail = &(*tail)->next;
	}
	return 0;
}

static struct node *from_yaml(struct yaml_walk *w, int index, unsigned depth)
{
	yaml_node_t *at = yaml_document_get_node(w->document, index);
	unsigned line = (unsigned)at->start_mark.line + 1;
	struct node *n;

	if (depth > DEPTH || ++w->nodes > NODES_MOST) {
		err_set(w->e, "%s:%u: %s: not a configuration", w->name, line,
			depth > DEPTH ? "nested too deep" : "too many values");
		return NULL;
	}
	n = node_new(at->type == YAML_MAPPING_NODE    ? NODE_MAP
		     : at->type == YAML_SEQUENCE_NODE ? NODE_LIST
						      : NODE_STRING,
		     line);
	if (at->type == YAML_SCALAR_NODE) {
		n->text = xstrdup((const char *)at->data.scalar.value);
		if (at->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
			n->kind = plain_kind(n->text);
	} else if (yaml_members(w, n, at, depth)) {
		node_free(n);
		return NULL;
	}
	return n;
}

struct node *node_read_yaml(const char *text, size_t length, const char *name, struct err *e)
{
	struct yaml_walk w = { NULL, name, e, 0 };
	yaml_document_t document;
	yaml_parser_t parser;
	struct node *n = NULL;

	if (!yaml_parser_initialize(&parser))
		BUG("libyaml has no memory");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	if (!yaml_parser_load(&parser, &document)) {
		err_set(e, "%s:%zu: not YAML: %s", name, parser.problem_mark.line + 1,
			parser.problem ? parser.problem : "?");
		yaml_parser_delete(&parser);
		return NULL;
	}
	w.document = &document;
	if (yaml_document_get_root_node(&document))
		n = from_yaml(&w, 1, 0);
	else
		err_set(e, "%s: empty", name);
	yaml_document_delete(&document);
	yaml_parser_delete(&parser);
	return n;
}
