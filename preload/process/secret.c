#define _GNU_SOURCE
#include "process/secret.h"

#include <ctype.h>
#include <string.h>

#include "process/secret_looks.h"
#include "process/secret_value.h"

static void put(struct masked *out, const char *s, size_t n)
{
	if (n > out->room - out->n) {
		n = out->room - out->n;
		out->cut = 1;
	}
	memcpy(out->s + out->n, s, n);
	out->n += n;
}

/* Replaces the part by asterisks and continues after it. */
static void hide(struct walk *w, struct part part)
{
	int quoted = is_plain_start(w, part.begin);

	put(w->out, w->text + w->at, part.begin - w->at);
	put(w->out, quoted ? "\"***\"" : "***", quoted ? 5 : 3);
	w->at = quoted ? plain_end(w, part.end, 1) : part.end;
}

/* Returns the name that ends at P, without its quotes. */
static struct part name_before(const struct walk *w, size_t p)
{
	struct part name = { p, p };
	size_t least = p > w->at + MAX_NAME ? p - MAX_NAME : w->at;
	char quote = 0;

	while (name.end > least && is_blank(w->text[name.end - 1]))
		name.end--;
	if (name.end > least && is_one_of(w->text[name.end - 1], "\"'"))
		quote = w->text[--name.end];
	if (quote && name.end > least && w->text[name.end - 1] == '\\')
		name.end--;
	name.begin = name.end;
	while (name.begin > least &&
	       (quote ? w->text[name.begin - 1] != quote
		      : !isspace((unsigned char)w->text[name.begin - 1]) &&
				!is_one_of(w->text[name.begin - 1], ",;{}[]()\"'&?@\\")))
		name.begin--;
	return name;
}

static void keep(struct walk *w, size_t end)
{
	put(w->out, w->text + w->at, end - w->at);
	w->at = end;
}

/* Hides the value that begins at V and returns 1, if the name is that of a secret. */
static int hide_value(struct walk *w, struct part name, struct name kind, size_t p, size_t v)
{
	struct part value;
	size_t open;

	for (int i = 0; i < 2 && w->is_file && v < w->n && is_one_of(w->text[v], "&!"); i++)
		v = skip_blanks(w, word_end(w, v + 1)); /* after a YAML anchor or tag */
	open = opening(w, v);
	value = value_at(w, name, kind, p, v);
	if (value.end == value.begin)
		return 0;
	if (name_shows(kind, w->text + value.begin, value.end - value.begin)) {
		keep(w, value.end);
		return 1;
	}
	if (w->text[value.begin] == '\n' && kind.kind != NAME_SECRET)
		return 0;
	if (!name_hides(kind, w->text + value.begin, value.end - value.begin))
		return 0;
	if (w->text[value.begin] == '\n') { /* a YAML block on lines of its own */
		keep(w, value.begin);
		put(w->out, " \"***\"", 6);
		w->at = value.end;
	} else {
		hide(w, value);
		keep(w, w->at + open < w->n ? w->at + open : w->n);
	}
	return 1;
}

/* NAME=VALUE, NAME: VALUE, with the separator at P. */
static int hide_pair(struct walk *w, size_t p)
{
	struct part name = name_before(w, p);
	struct name kind = name_of(w->text + name.begin, name.end - name.begin);
	size_t v = p + 1;

	if (kind.kind == NAME_NOTHING)
		return 0;
	if (w->text[p] == ':' || w->is_file)
		v = skip_blanks(w, v);
	return hide_value(w, name, kind, p, v);
}

/* Returns 1 if a key, not a value, begins at V. */
static int is_key(const struct walk *w, size_t v)
{
	size_t open = opening(w, v), end;

	if (!w->is_file)
		return 0;
	if (!open) {
		end = plain_end(w, v, 1);
		return end < w->n && w->text[end] == ':';
	}
	for (end = v + open; end < w->n && end - v < MAX_NAME; end++)
		if (w->text[end] == w->text[v + open - 1])
			break;
	end = skip_blanks(w, end < w->n ? end + 1 : w->n);
	return end < w->n && w->text[end] == ':';
}

/* Returns the start of the value after the option that ends at P: after blanks, or the next item of
 * a list. P: there is no value. */
static size_t next_value(const struct walk *w, size_t p)
{
	size_t v = p + is_one_of(w->text[p], "\"'"), lines = 0;
	int is_item = 0;

	v = skip_blanks(w, v);
	if (v < w->n && w->text[v] == ',') {
		is_item = 1;
		v++;
	}
	for (; v < w->n && isspace((unsigned char)w->text[v]); v++)
		lines += w->text[v] == '\n';
	if (lines && v + 1 < w->n && w->text[v] == '-' && w->text[v + 1] == ' ') {
		is_item = 1;
		v = skip_blanks(w, v + 1);
	}
	if (v >= w->n || v + opening(w, v) >= w->n || w->text[v + opening(w, v)] == '-' ||
	    is_one_of(w->text[v], "[]{}") || (w->is_file && lines && !is_item) || is_key(w, v))
		return p;
	return v;
}

/* --NAME VALUE in a text, and as two items of a list: "--token", "X". */
static int hide_next(struct walk *w, size_t p)
{
	struct part name = name_before(w, p), value;
	char quote = w->quote;
	struct name kind;
	size_t v;

	if (name.begin == name.end || w->text[name.begin] != '-')
		return 0;
	kind = name_of(w->text + name.begin, name.end - name.begin);
	v = kind.kind == NAME_NOTHING ? p : next_value(w, p);
	if (v == p)
		return 0;
	if (w->text[p] == w->quote)
		w->quote = 0;
	if (opening(w, v)) {
		if (hide_value(w, name, kind, p, v))
			return 1;
	} else {
		value = (struct part){ v, word_end(w, v) };
		if (name_hides(kind, w->text + v, value.end - v)) {
			hide(w, value);
			return 1;
		}
	}
	w->quote = quote;
	return 0;
}

/* Updates the state of quotes, brackets and comments at P. */
static void follow(struct walk *w, size_t p)
{
	char c = w->text[p], before = p ? w->text[p - 1] : '\n';
	int begins = is_one_of(before, " \t\n:=,[{(-");

	if (c == '\n') {
		w->quote = 0;
		w->in_comment = 0;
	} else if (w->in_comment) {
		return;
	} else if (w->quote) {
		int escaped =
			w->quote == '"' && before == '\\' && !(p > 1 && w->text[p - 2] == '\\');
		if (c == w->quote && !escaped)
			w->quote = 0;
	} else if ((c == '"' || c == '\'') && begins) {
		w->quote = c;
	} else if (c == '#' && w->is_file && isspace((unsigned char)before)) {
		w->in_comment = 1;
	} else if ((c == '[' || c == '{') && (begins || w->flow)) {
		w->flow++;
	} else if ((c == ']' || c == '}') && w->flow) {
		w->flow--;
	}
}

static void mask(struct masked *out, const char *text, size_t n, int is_file)
{
	struct walk w = { .text = text, .n = n, .out = out, .is_file = is_file };

	for (size_t p = 0; p < n;) {
		struct part secret = { p, p };
		int hidden = 0;

		secret.end = looks_end(text, n, p, &secret.begin);
		if (secret.end > p && secret.end > secret.begin) {
			hide(&w, secret);
			hidden = 1;
		} else if (text[p] == '=' || text[p] == ':') {
			hidden = hide_pair(&w, p);
		} else if ((isspace((unsigned char)text[p]) && p > 0 &&
			    !isspace((unsigned char)text[p - 1])) ||
			   is_one_of(text[p], "\"',")) {
			hidden = hide_next(&w, p);
		}
		if (hidden && w.at > p) {
			p = w.at;
			continue;
		}
		follow(&w, p++);
	}
	put(out, text + w.at, n - w.at);
}

void secret_mask_value(struct masked *out, const char *name, const char *value, size_t n)
{
	struct name kind = name_of(name, strlen(name));

	if (name_shows(kind, value, n))
		put(out, value, n);
	else if (name_hides(kind, value, n))
		put(out, "***", 3);
	else
		mask(out, value, n, 0);
}

/* Returns 1 if the argument is a value of the option before it, not the next option. */
static int is_value(const char *a)
{
	return a[0] != '-' || (a[1] != '-' && !(isalpha((unsigned char)a[1]) && !a[2]));
}

/* Returns 1 for a second or third value of `--token A B`. A word that looks like a path or a
 * setting is no such value. */
static int is_another(const char *a)
{
	return is_value(a) && !a[strcspn(a, "./=:")];
}

void secret_mask_arguments(struct masked *out, const char *line, size_t n)
{
	const char *option = "";
	int hidden = 0; /* 1: a value of the option was hidden */

	for (const char *a = line; a < line + n; a += strlen(a) + 1) {
		size_t length = strlen(a);
		struct name kind = name_of(option, strlen(option));

		if (a > line)
			put(out, "", 1);
		if (*option && is_value(a) && (!hidden || is_another(a)) &&
		    (name_shows(kind, a, length) || name_hides(kind, a, length))) {
			secret_mask_value(out, option, a, length);
			hidden = 1;
			continue;
		}
		option = a[0] == '-' && !strchr(a, '=') ? a : "";
		hidden = 0;
		kind = name_of(a, length > 2 ? 2 : 0);
		if (a[0] == '-' && kind.kind == NAME_SHORT && name_hides(kind, a + 2, length - 2)) {
			put(out, a, 2); /* -pVALUE */
			put(out, "***", 3);
		} else {
			mask(out, a, length, 0);
		}
	}
}

void secret_mask_file(struct masked *out, const char *text, size_t n)
{
	mask(out, text, n, 1);
}
