#include "readers/document.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/util.h"

/* The largest real configurations have some hundred KiB. */
#define MAX_FILE_BYTES (16 << 20)

const char *doc_kind_name(enum doc_kind kind)
{
	static const char *const names[] = { "null", "true or false", "a number",
					     "text", "an object",     "a list" };

	return names[kind];
}

void doc_free(struct doc_node *n)
{
	while (n) {
		struct doc_node *next = n->next;

		doc_free(n->first);
		free(n->key);
		free(n->text);
		free(n);
		n = next;
	}
}

const struct doc_node *doc_find(const struct doc_node *map, const char *key)
{
	if (!map || map->kind != DOC_MAP)
		return NULL;
	for (const struct doc_node *n = map->first; n; n = n->next)
		if (n->key && !strcmp(n->key, key))
			return n;
	return NULL;
}

char *doc_text(const struct doc_node *n)
{
	struct buf b = { 0 };

	if (n->kind != DOC_LIST)
		return xstrdup(n->text ? n->text : "");
	buf_puts(&b, "[");
	for (const struct doc_node *i = n->first; i; i = i->next) {
		char *text = doc_text(i);

		if (i != n->first)
			buf_puts(&b, ",");
		buf_puts(&b, text);
		free(text);
	}
	buf_puts(&b, "]");
	return buf_take(&b);
}

struct doc_node *doc_node_new(enum doc_kind kind, unsigned line)
{
	struct doc_node *n = xcalloc(1, sizeof(*n));

	n->kind = kind;
	n->line = line;
	return n;
}

/* ---- JSON: jansson parses; a second pass over the text finds the line of every value ---- */

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

static struct doc_node *from_json(json_t *value, struct walk *w);

static void json_members(struct doc_node *n, json_t *value, struct walk *w)
{
	struct doc_node **tail = &n->first;
	const char *key;
	json_t *child;
	size_t i;

	w->at++; /* the opening bracket */
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

static struct doc_node *from_json(json_t *value, struct walk *w)
{
	static const enum doc_kind kinds[] = {
		[JSON_OBJECT] = DOC_MAP,     [JSON_ARRAY] = DOC_LIST,  [JSON_STRING] = DOC_STRING,
		[JSON_INTEGER] = DOC_NUMBER, [JSON_REAL] = DOC_NUMBER, [JSON_TRUE] = DOC_BOOL,
		[JSON_FALSE] = DOC_BOOL,     [JSON_NULL] = DOC_NULL,
	};
	struct doc_node *n;

	skip_space(w);
	n = doc_node_new(kinds[json_typeof(value)], w->line);
	if (n->kind == DOC_MAP || n->kind == DOC_LIST) {
		json_members(n, value, w);
		return n;
	}
	n->text = scalar_text(value);
	if (n->kind == DOC_STRING)
		skip_string(w);
	else
		w->at += strcspn(w->at, ",]} \t\r\n");
	return n;
}

/* Depth of the nesting. jansson's own limit is 2048, too much for the recursive functions here. */
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

static size_t json_longest_key(json_t *value)
{
	size_t most = 0, i;
	const char *key;
	json_t *child;

	json_object_foreach(value, key, child)
	{
		size_t length = strlen(key), inside = json_longest_key(child);

		most = length > most ? length : most;
		most = inside > most ? inside : most;
	}
	json_array_foreach(value, i, child)
	{
		size_t inside = json_longest_key(child);

		most = inside > most ? inside : most;
	}
	return most;
}

/* Python's json writes NaN, Infinity and -Infinity, which JSON does not have: quotes them. No line
 * changes. */
static char *quote_python_numbers(const char *text, size_t length, size_t *quoted)
{
	static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
	struct buf b = { 0 };
	int in_string = 0;

	for (size_t i = 0; i < length; i++) {
		size_t w = 0, word = 0;

		if (in_string && text[i] == '\\' && i + 1 < length)
			buf_add(&b, &text[i++], 1);
		else if (text[i] == '"')
			in_string = !in_string;
		for (; !in_string && w < ARRAY_SIZE(words) && !word; w++)
			if (!strncmp(text + i, words[w], strlen(words[w])))
				word = strlen(words[w]);
		if (word) {
			buf_addf(&b, "\"%.*s\"", (int)word, text + i);
			i += word - 1;
		} else {
			buf_add(&b, text + i, 1);
		}
	}
	*quoted = b.length;
	return buf_take(&b);
}

struct doc_node *doc_read_json(const char *text, size_t length, const char *name, struct err *e)
{
	json_error_t why;
	json_t *value;
	struct doc_node *n;
	struct walk w = { .line = 1 };
	char *quoted;

	if (json_depth(text, length) > MAX_DOC_DEPTH) {
		err_set(e, "%s: nested more than %d deep: not a configuration", name,
			MAX_DOC_DEPTH);
		return NULL;
	}
	w.at = quoted = quote_python_numbers(text, length, &length);
	value = json_loadb(quoted, length, JSON_REJECT_DUPLICATES, &why);
	if (!value) {
		err_set(e, "%s:%d: not JSON: %s", name, why.line < 0 ? 1 : why.line, why.text);
		free(quoted);
		return NULL;
	}
	if (json_longest_key(value) > MAX_DOC_KEY) {
		err_set(e, "%s: a key of more than %d bytes: not a configuration", name,
			MAX_DOC_KEY);
		json_decref(value);
		free(quoted);
		return NULL;
	}
	n = from_json(value, &w);
	json_decref(value);
	free(quoted);
	return n;
}

/* ---- files ---- */

char *doc_file_text(const char *path, size_t *length, struct err *e)
{
	FILE *f = fopen(path, "rb");
	struct buf b = { 0 };
	char chunk[65536];
	size_t n;

	if (!f) {
		err_set(e, "%s: %s", path, strerror(errno));
		return NULL;
	}
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0 && b.length <= MAX_FILE_BYTES)
		buf_add(&b, chunk, n);
	if (ferror(f))
		err_set(e, "%s: %s", path, strerror(errno));
	else if (b.length > MAX_FILE_BYTES)
		err_set(e, "%s: more than %d MiB: not a configuration", path, MAX_FILE_BYTES >> 20);
	else if (b.length == 0)
		err_set(e, "%s: empty", path);
	fclose(f);
	*length = b.length;
	if (e->text[0]) {
		buf_release(&b);
		return NULL;
	}
	return buf_take(&b);
}

int64_t doc_number(const struct doc_node *map, const char *key, int64_t other)
{
	const struct doc_node *n = doc_find(map, key);

	return n && n->kind == DOC_NUMBER ? strtoll(n->text, NULL, 10) : other;
}
