#define _GNU_SOURCE
#include "process/secret_name.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "process/secret_looks.h"

enum { NUMBERS = NAME_KEEPS_NUMBERS, PATHS = NAME_KEEPS_PATHS, MARKS = NAME_KEEPS_MARKS };

struct word {
	const char *s;
	size_t n;
};

static const struct {
	const char *word;
	int is_suffix;
	unsigned keeps;
} words[] = {
#define WORD(word, suffix, keeps) { word, suffix, keeps },
#include "process/secret.def"
};

static const char *const owners[] = {
#define OWNER(word) word,
#include "process/secret.def"
};

static const struct {
	const char *word, *last;
} ordinary[] = {
#define ORDINARY(word, last) { word, last },
#include "process/secret.def"
};

static const char *const open_names[] = {
#define OPEN(name) name,
#include "process/secret.def"
};

static int is_word(struct word w, const char *text)
{
	return strlen(text) == w.n && strncasecmp(w.s, text, w.n) == 0;
}

static int ends_in(struct word w, const char *text)
{
	size_t n = strlen(text);

	return w.n >= n && strncasecmp(w.s + w.n - n, text, n) == 0;
}

/* The word that ends at END: letters and digits. A capital after a small letter begins a new word
 * (hfToken). */
static struct word word_before(const char *start, const char *end)
{
	const char *p;

	while (end > start && !isalnum((unsigned char)end[-1]))
		end--;
	for (p = end; p > start && isalnum((unsigned char)p[-1]); p--)
		if (p < end && isupper((unsigned char)*p) && islower((unsigned char)p[-1]))
			break;
	return (struct word){ p, (size_t)(end - p) };
}

/* The same without a number at the end: HF_TOKEN2, HF_TOKEN_2. The word s3 keeps its number. */
static struct word last_word(const char *start, const char *end)
{
	struct word w = word_before(start, end);

	while (w.n > 2 && isdigit((unsigned char)w.s[w.n - 1]))
		w.n--;
	return w.n && isdigit((unsigned char)w.s[0]) ? word_before(start, w.s) : w;
}

static int is_owner(struct word w)
{
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
		if (is_word(w, owners[i]))
			return 1;
	return 0;
}

/* Is LAST a word of the table, and is the pair with the word BEFORE it not an ordinary one? */
static int find_word(struct word last, struct word before, struct name *found)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!is_word(last, words[i].word) &&
		    !(words[i].is_suffix && ends_in(last, words[i].word)))
			continue;
		if (last.n > strlen(words[i].word))
			before = (struct word){ last.s, last.n - strlen(words[i].word) };
		for (size_t k = 0; k < sizeof(ordinary) / sizeof(ordinary[0]); k++)
			if (!strcmp(ordinary[k].last, words[i].word) &&
			    is_word(before, ordinary[k].word))
				return 0;
		*found = (struct name){ NAME_SECRET, words[i].keeps };
		return 1;
	}
	return 0;
}

/* Accepts api_key, API_KEYS, apikey, aws_access_key_id. */
static int is_owned_key(struct word last, struct word before)
{
	size_t key = ends_in(last, "keys") ? 4 : ends_in(last, "key") ? 3 : 0;

	if (!key)
		return 0;
	return is_owner(last.n > key ? (struct word){ last.s, last.n - key } : before);
}

static int contains_key(const char *s, size_t n)
{
	for (size_t i = 0; i + 3 <= n; i++)
		if (strncasecmp(s + i, "key", 3) == 0)
			return 1;
	return 0;
}

static int is_open(const char *s, size_t n)
{
	size_t dashes = 0;

	while (dashes < n && s[dashes] == '-')
		dashes++;
	for (size_t i = 0; i < sizeof(open_names) / sizeof(open_names[0]); i++)
		if (is_word((struct word){ s + dashes, n - dashes }, open_names[i]))
			return 1;
	return 0;
}

struct name name_of(const char *s, size_t n)
{
	struct name found = { NAME_NOTHING, 0 };
	struct word last = last_word(s, s + n), before = last_word(s, last.s);
	int is_option = n > 0 && s[0] == '-';

	if (is_open(s, n))
		return (struct name){ NAME_OPEN, 0 };
	if (is_option && n == 2)
		return (struct name){ strchr("kpta", s[1]) ? NAME_SHORT : NAME_NOTHING, 0 };
	if (find_word(last, before, &found))
		return found;
	if (is_word(last, "id") && contains_key(before.s, before.n)) {
		last = before;
		before = last_word(s, last.s);
	}
	if (is_owned_key(last, before))
		return (struct name){ NAME_SECRET, PATHS };
	if (is_word(last, "key") &&
	    (last.n + strspn(s, "-+") == n || (last.s > s && last.s[-1] == '.')))
		return (struct name){ NAME_LONE, 0 };
	if (contains_key(s, n))
		return (struct name){ NAME_KEY, 0 };
	return found;
}

/* ---- values ---- */

static int is_switch(const char *v, size_t n)
{
	static const char *const all[] = { "true", "false", "yes",  "no",   "on",
					   "off",  "none",  "null", "auto", "~" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (is_word((struct word){ v, n }, all[i]))
			return 1;
	return 0;
}

static int is_number(const char *v, size_t n)
{
	size_t digits = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)v[i]) && !strchr("+-._", v[i]))
			return 0;
		digits += isdigit((unsigned char)v[i]) != 0;
	}
	return digits > 0 && digits < 10;
}

static int is_path(const char *v, size_t n)
{
	int begins = v[0] == '/' || (n > 1 && (!strncmp(v, "./", 2) || !strncmp(v, "~/", 2))) ||
		     (n > 2 && !strncmp(v, "../", 3));

	return begins && !looks_random(v, n, 16);
}

/* Returns 1 for at least 32 characters of a token with more distinct characters than a text or path
 * has. */
static int is_long_token(const char *v, size_t n)
{
	unsigned char seen[256] = { 0 };
	size_t distinct = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)v[i]) && !strchr("_-.+/=~", v[i]))
			return 0;
		distinct += !seen[(unsigned char)v[i]];
		seen[(unsigned char)v[i]] = 1;
	}
	return n >= 32 && distinct >= 10 && looks_random(v, n, 10);
}

int name_shows(struct name name, const char *v, size_t n)
{
	return name.kind == NAME_OPEN && n > 3 && !memcmp(v, "eyJ", 3);
}

int name_hides(struct name name, const char *v, size_t n)
{
	while (n && isspace((unsigned char)v[n - 1]))
		n--;
	if (!n || is_switch(v, n) || looks_referring(v, n))
		return 0;
	switch (name.kind) {
	case NAME_SHORT:
		return looks_random(v, n, 12);
	case NAME_KEY:
		return !is_path(v, n) && is_long_token(v, n);
	case NAME_LONE:
		return !is_path(v, n) && !is_number(v, n) && (n >= 20 || looks_random(v, n, 8));
	case NAME_SECRET:
		return !((name.keeps & NUMBERS) && is_number(v, n)) &&
		       !((name.keeps & PATHS) && is_path(v, n)) &&
		       !((name.keeps & MARKS) && strchr("<[", v[0]));
	default:
		return 0;
	}
}
