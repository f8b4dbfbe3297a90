#define _GNU_SOURCE
#include "process/secret_looks.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum set { ALNUM, HEX, UPPER, PLAIN, DOTTED };

static const struct {
	const char *prefix;
	enum set set;
	size_t least, run;
} shapes[] = {
#define SHAPE(prefix, set, least, run) { prefix, set, least, run },
#include "process/secret.def"
};

static const char *const hooks[] = {
#define HOOK(text) text,
#include "process/secret.def"
};

static int is_token_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_-.+/=~", c));
}

static int is_in(enum set set, char c)
{
	switch (set) {
	case ALNUM:
		return isalnum((unsigned char)c);
	case HEX:
		return isxdigit((unsigned char)c);
	case UPPER:
		return isupper((unsigned char)c) || isdigit((unsigned char)c);
	case PLAIN:
		return isalnum((unsigned char)c) || c == '_' || c == '-';
	case DOTTED:
		return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
	}
	return 0;
}

static int begins(const char *text, size_t n, size_t p, const char *with)
{
	size_t length = strlen(with);

	return n - p >= length && memcmp(text + p, with, length) == 0;
}

static size_t token_end(const char *text, size_t n, size_t p)
{
	while (p < n && is_token_char(text[p]))
		p++;
	return p;
}

/* May a token begin at P? Also after %3D in a URL and \n in a JSON text, and in -pTOKEN. */
static int is_token_start(const char *text, size_t p)
{
	if (p == 0 || !(isalnum((unsigned char)text[p - 1]) || strchr("_-.", text[p - 1])))
		return 1;
	if (p >= 2 && text[p - 2] == '\\' && strchr("nrt", text[p - 1]))
		return 1;
	if (p >= 3 && text[p - 3] == '%' && isxdigit((unsigned char)text[p - 2]) &&
	    isxdigit((unsigned char)text[p - 1]))
		return 1;
	return p == 2 && text[0] == '-' && isalpha((unsigned char)text[1]);
}

static size_t shape_end(const char *text, size_t n, size_t p)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t tail = p + strlen(shapes[i].prefix), q, run = 0, longest = 0;

		if (text[p] != shapes[i].prefix[0] || !begins(text, n, p, shapes[i].prefix))
			continue;
		for (q = tail; q < n && is_in(shapes[i].set, text[q]); q++) {
			run = isalnum((unsigned char)text[q]) ? run + 1 : 0;
			longest = run > longest ? run : longest;
		}
		if (q - tail >= shapes[i].least && longest >= shapes[i].run)
			return token_end(text, n, q);
	}
	return p;
}

/* Returns the end of a key from -----BEGIN PRIVATE KEY-----; without an END line, the end of the
 * quoted text or of the whole text. */
static size_t private_key_end(const char *text, size_t n, size_t p)
{
	size_t head = n - p < 80 ? n - p : 80; /* YAML may break the line between its words */
	const char *end;

	if (!begins(text, n, p, "-----BEGIN") || !memmem(text + p, head, "PRIVATE", 7))
		return p;
	end = memmem(text + p + 10, n - p - 10, "-----END", 8);
	if (end && (end = memmem(end, (size_t)(text + n - end), "KEY-----", 8)))
		return (size_t)(end - text) + 8;
	end = memchr(text + p, '"', n - p);
	return end ? (size_t)(end - text) : n;
}

/* Is the scheme before "://" at P http or https? In such an address, a name alone is a token. */
static int is_web(const char *text, size_t p)
{
	return (p >= 4 && !strncasecmp(text + p - 4, "http", 4)) ||
	       (p >= 5 && !strncasecmp(text + p - 5, "https", 5));
}

/* P is at "://". Finds the password in USER:PASSWORD@HOST, or the token in TOKEN@HOST. */
static size_t userinfo_end(const char *text, size_t n, size_t p, size_t *begin)
{
	size_t from = p + 3, q, at = 0, colon = 0, user;

	for (q = from; q < n && !isspace((unsigned char)text[q]) && !strchr("/?#\"'<>\\,", text[q]);
	     q++) {
		if (text[q] == ':' && !colon && !at)
			colon = q;
		if (text[q] == '@')
			at = q;
	}
	if (!at || at == from)
		return p;
	user = (colon && colon < at ? colon : at) - from;
	*begin = from;
	if (user >= 20 || looks_random(text + from, user, 16))
		return at;
	if (colon && colon < at)
		*begin = colon + 1;
	else if (!is_web(text, p) || (user == 3 && !memcmp(text + from, "git", 3)))
		return p;
	return at > *begin && !looks_referring(text + *begin, at - *begin) ? at : p;
}

/* Finds the secret in "Bearer TOKEN" and "Basic BASE64"; P is at the first letter. */
static size_t scheme_end(const char *text, size_t n, size_t p, size_t *begin)
{
	size_t word = begins(text, n, p, "Bearer ") || begins(text, n, p, "bearer ") ? 7
		      : begins(text, n, p, "Basic ")                                 ? 6
										     : 0;
	size_t end = word ? token_end(text, n, p + word) : p, length = end - p - word;

	if (!word || length < 8 ||
	    (word == 6 && text[end - 1] != '=' && !looks_random(text + p + word, length, 12)))
		return p;
	*begin = p + word;
	return end;
}

static size_t hook_end(const char *text, size_t n, size_t p, size_t *begin)
{
	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
		if (!begins(text, n, p, hooks[i]))
			continue;
		*begin = p + strlen(hooks[i]);
		p = *begin;
		while (p < n && (is_token_char(text[p]) || strchr(":@%", text[p])))
			p++;
		return p;
	}
	return p;
}

size_t looks_end(const char *text, size_t n, size_t p, size_t *begin)
{
	size_t end = p;

	*begin = p;
	if (text[p] == ':' && begins(text, n, p, "://"))
		return userinfo_end(text, n, p, begin);
	if (text[p] == '-')
		return private_key_end(text, n, p);
	if (!isalpha((unsigned char)text[p]) || !is_token_start(text, p))
		return p;
	end = shape_end(text, n, p);
	if (end == p)
		end = hook_end(text, n, p, begin);
	return end == p ? scheme_end(text, n, p, begin) : end;
}

static int class_of(char c)
{
	return isdigit((unsigned char)c) ? 1 : isupper((unsigned char)c) ? 2 : 3;
}

int looks_random(const char *v, size_t n, size_t least)
{
	size_t run = 0, changes = 0;
	int classes = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)v[i])) {
			run = changes = 0;
			classes = 0;
			continue;
		}
		changes += run && class_of(v[i]) != class_of(v[i - 1]);
		classes |= 1 << class_of(v[i]);
		if (++run >= least && changes >= 3 && (classes & (classes - 1)))
			return 1;
	}
	return 0;
}

int looks_referring(const char *v, size_t n)
{
	size_t i = 1;

	if (n < 2 || v[0] != '$')
		return 0;
	if (v[1] == '{')
		return v[n - 1] == '}' && !memchr(v, ',', n) && !memmem(v, n, ":-", 2);
	while (i < n &&
	       (isupper((unsigned char)v[i]) || isdigit((unsigned char)v[i]) || v[i] == '_'))
		i++;
	return i == n;
}
