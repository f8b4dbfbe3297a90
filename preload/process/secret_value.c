#define _GNU_SOURCE
#include "process/secret_value.h"

#include <ctype.h>

#define MAX_FLOW 8192 /* longer than any secret without quotes */

static size_t line_end(const struct walk *w, size_t p)
{
	const char *end = memchr(w->text + p, '\n', w->n - p);

	return end ? (size_t)(end - w->text) : w->n;
}

/* Does an unquoted YAML value begin at P, after its anchor and tag? YAML would read three asterisks
 * there as an alias. */
int is_plain_start(const struct walk *w, size_t p)
{
	size_t begin = p;

	if (!w->is_file || w->quote)
		return 0;
	for (int properties = 0; properties < 3; properties++) {
		size_t q;
		while (p > 0 && is_blank(w->text[p - 1]))
			p--;
		for (q = p; q > 0 && p - q < MAX_NAME && !isspace((unsigned char)w->text[q - 1]);)
			q--;
		if (q == p || !is_one_of(w->text[q], "&!"))
			break;
		p = q;
	}
	if (p == begin && p > 1 && w->text[p - 1] == ':')
		return w->text[p - 2] == '"'; /* JSON needs no blank */
	return p == 0 || is_one_of(w->text[p - 1], p == begin ? ",[{\n" : ":-,[{\n");
}

size_t plain_end(const struct walk *w, size_t p, int as_key)
{
	size_t from = p;

	for (; p < w->n && (w->flow || w->text[p] != '\n'); p++) {
		if (w->flow && (is_one_of(w->text[p], ",]}") || p - from > MAX_FLOW))
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

size_t opening(const struct walk *w, size_t p)
{
	if (p < w->n && (w->text[p] == '"' || w->text[p] == '\''))
		return 1;
	return p + 1 < w->n && w->text[p] == '\\' && w->text[p + 1] == '"' ? 2 : 0;
}

/* The value inside the quotes that open at P. */
static struct part quoted(const struct walk *w, size_t p, size_t length)
{
	char quote = w->text[p + length - 1];
	size_t end = p + length;

	for (; end < w->n; end++) {
		char next = end + 1 < w->n ? w->text[end + 1] : 0;
		if (w->text[end] == '\\' && quote == '"') {
			if (length == 2 && next == '"')
				break;
			end++;
		} else if (w->text[end] == quote) {
			if (quote == '"' || !w->is_file || next != quote)
				break;
			end++; /* YAML's '' is an apostrophe */
		}
	}
	return (struct part){ p + length, end < w->n ? end : w->n };
}

static struct part bracketed(const struct walk *w, size_t p)
{
	struct part all = { p, p };
	unsigned depth = 0;

	for (; all.end < w->n; all.end++) {
		if (is_one_of(w->text[all.end], "\"'") && all.end > p &&
		    is_one_of(w->text[all.end - 1], " \t\n,:[{(")) {
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

/* The end of the lines that belong to the YAML key at column COLUMN. The line of the key ends at P.
 * Its lines are indented more, or are items of a list with the same indent. */
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
			continue; /* an empty line, inside the block or after it */
		if (first - line <= column &&
		    !(lists && first - line == column && w->text[first] == '-'))
			break;
		end = p;
	}
	return end;
}

size_t word_end(const struct walk *w, size_t p)
{
	while (p < w->n && !isspace((unsigned char)w->text[p]) &&
	       !is_one_of(w->text[p], ",;&)]}") && w->text[p] != w->quote &&
	       !(w->quote && w->text[p] == '\\'))
		p++;
	return p;
}

/* Is the name at the start of the text (in a file: of its line or of a list item)? Then its value
 * is all of the rest. *column is the name's position in the line. */
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

/* The value of a YAML key in block style that begins at V: its line, and the lines that belong to
 * it. */
static struct part block_value(const struct walk *w, size_t column, size_t v)
{
	size_t stop = line_end(w, v), end = block_end(w, stop, column, v == stop);
	int is_block = v < w->n && is_one_of(w->text[v], "|>");

	if (end > stop)
		return (struct part){ v, end };
	return (struct part){ v, is_block || v == stop ? stop : plain_end(w, v, 0) };
}

/* The value of "NAME:" in a quoted text ends with that text. */
static size_t header_end(const struct walk *w, size_t v)
{
	while (v < w->n && w->text[v] != w->quote && !is_one_of(w->text[v], "\\\n"))
		v++;
	return v;
}

/* Skips the scheme before a secret in a header; the secret is the next word. */
static size_t skip_scheme(const struct walk *w, size_t v)
{
	static const char *const schemes[] = { "Bearer ", "Basic ", "Token ", "bearer " };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (w->n - v > strlen(schemes[i]) &&
		    !memcmp(w->text + v, schemes[i], strlen(schemes[i])))
			return v + strlen(schemes[i]);
	return v;
}

/* An unquoted value that begins at V, after the separator at P. */
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

struct part value_at(const struct walk *w, struct part name, struct name kind, size_t p, size_t v)
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
