#define _GNU_SOURCE
#include "secret.h"

#include <ctype.h>
#include <string.h>

#include "secret_looks.h"

#define NAME_MOST 128 /* characters before a separator that are looked at */

/* A walk over a text: what is before `at` is copied. */
struct walk {
	const char *text;
	size_t n, at;
	struct masked *out;
	int is_file;
	char quote;       /* the one that is open on this line */
	unsigned flow;    /* open brackets of JSON and of YAML's flow style */
	int in_comment;
};

/* A part of the text. */
struct part {
	size_t begin, end;
};

static void put(struct masked *out, const char *s, size_t n)
{
	if (n > out->room - out->n) {
		n = out->room - out->n;
		out->cut = 1;
	}
	memcpy(out->s + out->n, s, n);
	out->n += n;
}

static int is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static int is_blank(char c)
{
	return is_one_of(c, " \t\r");
}

static size_t skip_blanks(const struct walk *w, size_t p)
{
	while (p < w->n && is_blank(w->text[p]))
		p++;
	return p;
}

static size_t line_end(const struct walk *w, size_t p)
{
	const char *end = memchr(w->text + p, '\n', w->n - p);

	return end ? (size_t)(end - w->text) : w->n;
}

/* Does an unquoted value of YAML begin at P, behind its anchor and tag? Three asterisks there would
 * be read as an alias. */
static int is_plain_start(const struct walk *w, size_t p)
{
	size_t begin = p;

	if (!w->is_file || w->quote)
		return 0;
	for (int properties = 0; properties < 3; properties++) {
		size_t q;
		while (p > 0 && is_blank(w->text[p - 1]))
			p--;
		for (q = p; q > 0 && p - q < NAME_MOST && !isspace((unsigned char)w->text[q - 1]);)
			q--;
		if (q == p || !is_one_of(w->text[q], "&!"))
			break;
		p = q;
	}
	if (p == begin && p > 1 && w->text[p - 1] == ':')
		return w->text[p - 2] == '"'; /* JSON needs no blank */
	return p == 0 || is_one_of(w->text[p - 1], p == begin ? ",[{\n" : ":-,[{\n");
}

/* Where an unquoted value ends that goes on at P; as a key, before its colon. */
static size_t plain_end(const struct walk *w, size_t p, int as_key)
{
	size_t from = p;

	for (; p < w->n && w->text[p] != '\n'; p++) {
		if (w->flow && is_one_of(w->text[p], ",]}"))
			break;
		if (w->text[p] == '#' && p > from && is_blank(w->text[p - 1]))
			break;
		if (as_key && w->text[p] == ':' && p + 1 < w->n &&
		    isspace((unsigned char)w->text[p + 1]))
			break;
	}
	while (p > from && isspace((unsigned char)w->text[p - 1]))
		p--;
	return p;
}

/* Leaves the part out and goes on behind it. */
static void hide(struct walk *w, struct part part)
{
	int quoted = is_plain_start(w, part.begin);

	put(w->out, w->text + w->at, part.begin - w->at);
	put(w->out, "\"***\"" + !quoted, quoted ? 5 : 3);
	w->at = quoted ? plain_end(w, part.end, 1) : part.end;
}

/* ---- where a value ends ---- */

/* The quote that opens at P, behind a backslash too (JSON inside of JSON): how long it is, or 0. */
static size_t opening(const struct walk *w, size_t p)
{
	if (p < w->n && (w->text[p] == '"' || w->text[p] == '\''))
		return 1;
	return p + 1 < w->n && w->text[p] == '\\' && w->text[p + 1] == '"' ? 2 : 0;
}

/* The value inside of the quotes that open at P. */
static struct part quoted(const struct walk *w, size_t p, size_t length)
{
	struct part inner = { p + length, p + length };
	char quote = w->text[p + length - 1];

	for (; inner.end < w->n && w->text[inner.end] != quote; inner.end++)
		if (w->text[inner.end] == '\\' && quote == '"') {
			if (length == 2 && inner.end + 1 < w->n && w->text[inner.end + 1] == '"')
				break;
			inner.end++;
		}
	if (inner.end > w->n)
		inner.end = w->n;
	return inner;
}

static struct part bracketed(const struct walk *w, size_t p)
{
	struct part all = { p, p };
	unsigned depth = 0;

	for (; all.end < w->n; all.end++) {
		if (w->text[all.end] == '"') {
			all.end = quoted(w, all.end, 1).end;
			continue;
		}
		depth += is_one_of(w->text[all.end], "[{");
		if (is_one_of(w->text[all.end], "]}") && --depth == 0)
			break;
	}
	all.end = all.end < w->n ? all.end + 1 : w->n;
	return all;
}

/* The end of the lines that belong to the YAML key at column COLUMN, whose own line ends at P:
 * those further in, and a list's that are as far. */
static size_t block_end(const struct walk *w, size_t p, size_t column, int lists)
{
	size_t end = p;

	while (p < w->n) {
		size_t line = p + 1, first = line;
		while (first < w->n && w->text[first] == ' ')
			first++;
		p = line_end(w, first < w->n ? first : w->n);
		if (first >= w->n)
			break;
		if (w->text[first] == '\n' || w->text[first] == '\r')
			continue; /* an empty line, inside or behind */
		if (first - line <= column && !(lists && first - line == column &&
						w->text[first] == '-'))
			break;
		end = p;
	}
	return end;
}

/* A word inside of a text: up to what separates words. */
static size_t word_end(const struct walk *w, size_t p)
{
	while (p < w->n && !isspace((unsigned char)w->text[p]) && !is_one_of(w->text[p], ",;&)]}") &&
	       w->text[p] != w->quote && !(w->quote && w->text[p] == '\\'))
		p++;
	return p;
}

/* ---- names ---- */

/* The name that ends at P, without its quotes. */
static struct part name_before(const struct walk *w, size_t p)
{
	struct part name = { p, p };
	size_t least = p > w->at + NAME_MOST ? p - NAME_MOST : w->at;
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

/* Does the name begin the text (or in a file its line, a list's item), and is its value thus all of
 * the rest? *column is where in the line it is. */
static int is_whole(const struct walk *w, struct part name, size_t *column)
{
	size_t p = name.begin, first;

	if (w->is_file && p > 0 && is_one_of(w->text[p - 1], "\"'"))
		p--;
	first = p;
	while (w->is_file && p > 0 && (is_blank(w->text[p - 1]) || w->text[p - 1] == '-'))
		p--;
	*column = first - p;
	return p == 0 || (w->is_file && w->text[p - 1] == '\n');
}

/* The value of a YAML key in block style that begins at V: its line, and the lines that belong to it. */
static struct part block_value(const struct walk *w, size_t column, size_t v)
{
	size_t stop = line_end(w, v), end = block_end(w, stop, column, v == stop);
	int is_block = v < w->n && is_one_of(w->text[v], "|>");

	if (end > stop)
		return (struct part){ v, end };
	return (struct part){ v, is_block || v == stop ? stop : plain_end(w, v, 0) };
}

/* The value of NAME: in a quoted text, up to that one's end. */
static size_t header_end(const struct walk *w, size_t v)
{
	while (v < w->n && w->text[v] != w->quote && !is_one_of(w->text[v], "\\\n"))
		v++;
	return v;
}

/* What stands before a secret in a header: the secret is the word behind it. */
static size_t skip_scheme(const struct walk *w, size_t v)
{
	static const char *const schemes[] = { "Bearer ", "Basic ", "Token ", "bearer " };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (w->n - v > strlen(schemes[i]) &&
		    !memcmp(w->text + v, schemes[i], strlen(schemes[i])))
			return v + strlen(schemes[i]);
	return v;
}

/* An unquoted value that begins at V, behind the separator at P. */
static struct part plain_value(const struct walk *w, struct part name, struct name kind, size_t p,
			       size_t v)
{
	int is_spaced = v > p + 1 || v == w->n || w->text[v] == '\n';
	int is_mapping = w->text[p] == ':' && is_spaced;
	size_t column = 0, end = word_end(w, skip_scheme(w, v));

	if (w->quote) {
		if (is_mapping && kind.kind == NAME_SECRET && !(kind.keeps & NAME_KEEPS_PATHS))
			end = header_end(w, v);
		return (struct part){ v, end };
	}
	if (!w->is_file)
		return (struct part){ v, is_whole(w, name, &column) ? w->n : end };
	if (w->flow)
		return (struct part){ v, plain_end(w, v, 0) };
	if (is_spaced && is_whole(w, name, &column)) {
		if (is_mapping)
			return block_value(w, column, v);
		end = plain_end(w, v, 0);
	}
	return (struct part){ v, end };
}

static void keep(struct walk *w, size_t end)
{
	put(w->out, w->text + w->at, end - w->at);
	w->at = end;
}

/* The value that begins at V; nothing where it has none that could be hidden. */
static struct part value_at(const struct walk *w, struct part name, struct name kind, size_t p,
			    size_t v)
{
	size_t open = opening(w, v);

	if (v < w->n && w->is_file && w->text[v] == '*')
		return (struct part){ v, v }; /* an alias */
	if (open)
		return quoted(w, v, open);
	if (v < w->n && is_one_of(w->text[v], "[{"))
		return kind.kind == NAME_SECRET ? bracketed(w, v) : (struct part){ v, v };
	return plain_value(w, name, kind, p, v);
}

/* Hides the value that begins at V, if its name says so, and returns 1. */
static int hide_value(struct walk *w, struct part name, struct name kind, size_t p, size_t v)
{
	struct part value;
	size_t open;

	for (int i = 0; i < 2 && w->is_file && v < w->n && is_one_of(w->text[v], "&!"); i++)
		v = skip_blanks(w, word_end(w, v + 1)); /* behind a YAML anchor, a tag */
	open = opening(w, v);
	value = value_at(w, name, kind, p, v);
	if (value.end == value.begin)
		return 0;
	if (kind.kind == NAME_OPEN) {
		keep(w, value.end);
		return 1;
	}
	if (w->text[value.begin] == '\n' && kind.kind != NAME_SECRET)
		return 0;
	if (!name_hides(kind, w->text + value.begin, value.end - value.begin))
		return 0;
	if (w->text[value.begin] == '\n') { /* a YAML block of its own lines */
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

/* Where the value begins that follows the option which ends at P: behind blanks, or as the next item
 * of a list. P: there is none. */
static size_t next_value(const struct walk *w, size_t p)
{
	size_t v = p + is_one_of(w->text[p], "\"'");

	v = skip_blanks(w, v);
	v += v < w->n && w->text[v] == ',';
	while (v < w->n && isspace((unsigned char)w->text[v]))
		v++;
	if (v + 1 < w->n && w->text[v] == '-' && w->text[v + 1] == ' ')
		v = skip_blanks(w, v + 1);
	if (v >= w->n || v + opening(w, v) >= w->n || w->text[v + opening(w, v)] == '-' ||
	    is_one_of(w->text[v], "]}"))
		return p;
	return v;
}

/* --NAME VALUE inside of a text, and as two items of a list: "--token", "X". */
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

/* ---- the walk ---- */

/* Keeps up with quotes, brackets and comments at P. */
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
		int escaped = w->quote == '"' && before == '\\' && !(p > 1 && w->text[p - 2] == '\\');
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

	if (kind.kind == NAME_OPEN)
		put(out, value, n);
	else if (name_hides(kind, value, n))
		put(out, "***", 3);
	else
		mask(out, value, n, 0);
}

/* An argument that is a value of the option before it, and not the next option. */
static int is_value(const char *a)
{
	return a[0] != '-' || (a[1] != '-' && !(isalpha((unsigned char)a[1]) && !a[2]));
}

/* The second and third value of `--token A B`; what has a path's or a setting's look is none. */
static int is_another(const char *a)
{
	return is_value(a) && !a[strcspn(a, "./=:")];
}

void secret_mask_arguments(struct masked *out, const char *line, size_t n)
{
	const char *option = "";
	int hidden = 0; /* the option's values so far */

	for (const char *a = line; a < line + n; a += strlen(a) + 1) {
		size_t length = strlen(a);
		struct name kind = name_of(option, strlen(option));

		if (a > line)
			put(out, "", 1);
		if (*option && is_value(a) && (!hidden || is_another(a)) &&
		    (kind.kind == NAME_OPEN || name_hides(kind, a, length))) {
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
