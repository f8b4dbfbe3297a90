/*
 * YAML from libyaml's events, in a time linear in the text. libyaml's own trees are not used: they
 * compare every anchor with every other one, and their depth is known only after they are built.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "readers/document.h"
#include "util/util.h"

#define MAX_NODES 200000 /* values, with those that aliases stand for */
#define MAX_COPIES (64 << 20)
#define MAX_TAGS 100 /* %TAG lines; libyaml compares each with all earlier ones */

struct anchor {
	const struct doc_node *node;
	int is_open; /* the end of its value is not read yet */
};

struct yaml_walk {
	yaml_parser_t parser;
	const char *name;
	struct err *e;
	unsigned nodes;
	struct anchor *anchors;
	size_t anchor_count, anchor_room;
	json_t *anchor_names;  /* name of an anchor to its index in `anchors` */
	struct doc_node *keys; /* keys with an anchor */
	size_t copied;         /* bytes of text that aliases stand for */
};

/* The kind of an unquoted word, by YAML 1.1 as far as configurations use it. */
static enum doc_kind plain_kind(const char *text)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", "None" };
	static const char *const truths[] = { "true", "false", "yes", "no", "on", "off" };
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
		if (!strcmp(text, nulls[i]))
			return DOC_NULL;
	for (size_t i = 0; i < ARRAY_SIZE(truths); i++)
		if (!strcasecmp(text, truths[i]))
			return DOC_BOOL;
	if (strspn(text, "+-0123456789.eE_") == strlen(text)) {
		strtod(text, &end);
		if (!*end)
			return DOC_NUMBER;
	}
	return DOC_STRING;
}

static unsigned line_of(const yaml_event_t *event)
{
	return (unsigned)event->start_mark.line + 1;
}

/* The next event; the caller deletes it. */
static int next_event(struct yaml_walk *w, yaml_event_t *event)
{
	if (yaml_parser_parse(&w->parser, event))
		return 0;
	return err_set(w->e, "%s:%zu: not YAML: %s", w->name, w->parser.problem_mark.line + 1,
		       w->parser.problem ? w->parser.problem : "?");
}

static int count_node(struct yaml_walk *w, unsigned line, unsigned depth)
{
	if (depth <= MAX_DOC_DEPTH && ++w->nodes <= MAX_NODES)
		return 0;
	return err_set(w->e, "%s:%u: %s: not a configuration", w->name, line,
		       depth > MAX_DOC_DEPTH ? "nested too deep" : "too many values");
}

/* ---- anchors ---- */

/* Returns the anchor's index, or -1 if the value has no anchor. */
static ssize_t open_anchor(struct yaml_walk *w, const yaml_char_t *name, const struct doc_node *n)
{
	if (!name)
		return -1;
	w->anchors = grow(w->anchors, w->anchor_count, &w->anchor_room, sizeof(*w->anchors));
	w->anchors[w->anchor_count] = (struct anchor){ n, 1 };
	json_object_set_new_nocheck(w->anchor_names, (const char *)name,
				    json_integer((json_int_t)w->anchor_count));
	return (ssize_t)w->anchor_count++;
}

static const struct doc_node *find_anchor(struct yaml_walk *w, const yaml_event_t *alias)
{
	const char *name = (const char *)alias->data.alias.anchor;
	json_t *index = json_object_get(w->anchor_names, name);
	const struct anchor *a = index ? &w->anchors[json_integer_value(index)] : NULL;

	if (a && !a->is_open)
		return a->node;
	err_set(w->e, "%s:%u: *%.60s %s", w->name, line_of(alias), name,
		a ? "stands inside of what it means" : "is an alias of nothing");
	return NULL;
}

static struct doc_node *copy(struct yaml_walk *w, const struct doc_node *from, unsigned depth)
{
	struct doc_node *n, **tail;

	if (count_node(w, from->line, depth))
		return NULL;
	w->copied += (from->text ? strlen(from->text) : 0) + (from->key ? strlen(from->key) : 0);
	if (w->copied > MAX_COPIES) {
		err_set(w->e, "%s:%u: too many values: not a configuration", w->name, from->line);
		return NULL;
	}
	n = doc_node_new(from->kind, from->line);
	n->text = from->text ? xstrdup(from->text) : NULL;
	tail = &n->first;
	for (const struct doc_node *child = from->first; child; child = child->next) {
		*tail = copy(w, child, depth + 1);
		if (!*tail) {
			doc_free(n);
			return NULL;
		}
		(*tail)->key = child->key ? xstrdup(child->key) : NULL;
		tail = &(*tail)->next;
	}
	return n;
}

/* ---- values ---- */

static struct doc_node *value_of(struct yaml_walk *w, const yaml_event_t *event, unsigned depth);

/* Appends the next value to a map or list. */
static int add_value(struct yaml_walk *w, struct doc_node ***tail, unsigned depth)
{
	yaml_event_t event;

	if (next_event(w, &event))
		return -1;
	**tail = value_of(w, &event, depth);
	yaml_event_delete(&event);
	return **tail ? 0 : -1;
}

/* Keeps a key with an anchor, for aliases of it: keys are no nodes of the tree. */
static void keep_key(struct yaml_walk *w, const yaml_char_t *anchor, const char *text,
		     unsigned line)
{
	struct doc_node *n = doc_node_new(DOC_STRING, line);
	ssize_t index;

	n->text = xstrdup(text);
	n->next = w->keys;
	w->keys = n;
	index = open_anchor(w, anchor, n);
	w->anchors[index].is_open = 0;
}

static const char *key_text(struct yaml_walk *w, const yaml_event_t *event)
{
	const struct doc_node *meant;
	const char *text = NULL;

	if (event->type == YAML_SCALAR_EVENT) {
		text = (const char *)event->data.scalar.value;
	} else if (event->type == YAML_ALIAS_EVENT) {
		meant = find_anchor(w, event);
		if (!meant)
			return NULL;
		text = meant->text;
	}
	if (!text)
		err_set(w->e, "%s:%u: a key that is not text", w->name, line_of(event));
	else if (strlen(text) > MAX_DOC_KEY)
		err_set(w->e, "%s:%u: a key of %zu bytes: not a configuration", w->name,
			line_of(event), strlen(text));
	else
		return text;
	return NULL;
}

static int add_pair(struct yaml_walk *w, struct doc_node ***tail, const yaml_event_t *event,
		    unsigned depth, json_t *seen)
{
	const char *text = key_text(w, event);
	char *key;

	if (!text)
		return -1;
	if (json_object_get(seen, text))
		return err_set(w->e, "%s:%u: \"%.60s\" is given twice", w->name, line_of(event),
			       text);
	json_object_set_new_nocheck(seen, text, json_true());
	if (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor)
		keep_key(w, event->data.scalar.anchor, text, line_of(event));
	key = xstrdup(text);
	if (add_value(w, tail, depth + 1)) {
		free(key);
		return -1;
	}
	(**tail)->key = key;
	*tail = &(**tail)->next;
	return 0;
}

static int add_members(struct yaml_walk *w, struct doc_node *n, unsigned depth)
{
	json_t *seen = n->kind == DOC_MAP ? json_object() : NULL;
	struct doc_node **tail = &n->first;
	int status = 0, done = 0;

	while (!status && !done) {
		yaml_event_t event;

		if (next_event(w, &event)) {
			status = -1;
			break;
		}
		if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) {
			done = 1;
		} else if (n->kind == DOC_MAP) {
			status = add_pair(w, &tail, &event, depth, seen);
		} else {
			*tail = value_of(w, &event, depth + 1);
			status = *tail ? 0 : -1;
			if (*tail)
				tail = &(*tail)->next;
		}
		yaml_event_delete(&event);
	}
	json_decref(seen);
	return status;
}

static struct doc_node *value_of(struct yaml_walk *w, const yaml_event_t *event, unsigned depth)
{
	const yaml_char_t *anchor;
	const struct doc_node *meant;
	struct doc_node *n;
	ssize_t index;

	if (event->type == YAML_ALIAS_EVENT) {
		meant = find_anchor(w, event);
		return meant ? copy(w, meant, depth) : NULL;
	}
	if (count_node(w, line_of(event), depth))
		return NULL;
	if (event->type == YAML_SCALAR_EVENT) {
		n = doc_node_new(DOC_STRING, line_of(event));
		n->text = xstrdup((const char *)event->data.scalar.value);
		if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
			n->kind = plain_kind(n->text);
		anchor = event->data.scalar.anchor;
	} else if (event->type == YAML_MAPPING_START_EVENT) {
		n = doc_node_new(DOC_MAP, line_of(event));
		anchor = event->data.mapping_start.anchor;
	} else {
		n = doc_node_new(DOC_LIST, line_of(event));
		anchor = event->data.sequence_start.anchor;
	}
	index = open_anchor(w, anchor, n);
	if (event->type != YAML_SCALAR_EVENT && add_members(w, n, depth)) {
		doc_free(n);
		return NULL;
	}
	if (index >= 0)
		w->anchors[index].is_open = 0;
	return n;
}

/* ---- the document ---- */

static int has_too_many_tags(const char *text, size_t length)
{
	const char *end = text + length, *line = text;
	unsigned tags = 0;

	while (line && end - line > 4) {
		tags += !memcmp(line, "%TAG", 4);
		line = memchr(line, '\n', (size_t)(end - line));
		line = line ? line + 1 : NULL;
	}
	return tags > MAX_TAGS;
}

/* The first document of the text. */
static struct doc_node *read_document(struct yaml_walk *w)
{
	struct doc_node *n = NULL, **tail = &n;
	yaml_event_t event;
	int is_empty;

	for (int i = 0; i < 2; i++) { /* the start of the stream and of the document */
		if (next_event(w, &event))
			return NULL;
		is_empty = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	if (is_empty) {
		err_set(w->e, "%s: empty", w->name);
		return NULL;
	}
	if (add_value(w, &tail, 0))
		return NULL;
	if (next_event(w, &event)) { /* the end of the document */
		doc_free(n);
		return NULL;
	}
	yaml_event_delete(&event);
	return n;
}

struct doc_node *doc_read_yaml(const char *text, size_t length, const char *name, struct err *e)
{
	struct yaml_walk w = { .name = name, .e = e };
	struct doc_node *n;

	if (has_too_many_tags(text, length)) {
		err_set(e, "%s: more than %d %%TAG lines: not a configuration", name, MAX_TAGS);
		return NULL;
	}
	if (!yaml_parser_initialize(&w.parser))
		BUG("libyaml has no memory");
	w.anchor_names = json_object();
	yaml_parser_set_input_string(&w.parser, (const unsigned char *)text, length);
	n = read_document(&w);
	yaml_parser_delete(&w.parser);
	json_decref(w.anchor_names);
	doc_free(w.keys);
	free(w.anchors);
	return n;
}
