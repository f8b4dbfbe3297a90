#define _GNU_SOURCE
#include "secret.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* A name's last word that makes its value a secret. Not "key" alone: that is also what sorting and
 * attention have. */
static const char *const words[] = { "token",      "secret", "password",   "passwd",
				     "passphrase", "pwd",    "credential", "credentials",
				     "apikey",     "jwt",    "auth",       "authorization",
				     "bearer",     "cookie", "pat",        "accesskey",
				     "secretkey",  NULL };

/* What comes before a last word "key" (or "key id") to make it one. */
static const char *const key_words[] = { "api",     "access",  "secret",     "private", "auth",
					 "license", "wandb",   "encryption", "signing", "ssh",
					 "service", "account", "master",     NULL };

/* How tokens of well-known services begin. */
static const char *const shapes[] = { "hf_",         "sk-",    "ghp_",  "gho_",  "ghs_",
				      "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA",
				      "ASIA",        "eyJ",    "AIza",  NULL };

#define MIN_SECRET 16 /* shorter than any token: "sk-1" is somebody's label */

struct word {
	const char *s;
	size_t n;
};

static int is_one_of(struct word w, const char *const *list)
{
	for (; *list; list++)
		if (strlen(*list) == w.n && strncasecmp(w.s, *list, w.n) == 0)
			return 1;
	return 0;
}

/* The word that ends at END: letters and digits, and a capital after a small letter begins a new
 * one (hfToken). */
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

static int names_a_secret(const char *name, const char *end)
{
	struct word last = word_before(name, end), before = word_before(name, last.s);

	if (is_one_of(last, (const char *const[]){ "id", NULL })) {
		last = before;
		before = word_before(name, last.s);
	}
	return is_one_of(last, words) || (is_one_of(last, (const char *const[]){ "key", NULL }) &&
					  is_one_of(before, key_words));
}

static int is_token_char(char c)
{
	return isalnum((unsigned char)c) || strchr("_-.+/=", c);
}

/* Does a secret begin at P by its looks? */
static int looks_secret(const char *value, const char *p)
{
	size_t n = 0;

	if (p > value && is_token_char(p[-1]) && p[-1] != '=')
		return 0;
	while (p[n] && is_token_char(p[n]))
		n++;
	for (const char *const *s = shapes; *s && n >= MIN_SECRET; s++)
		if (strncmp(p, *s, strlen(*s)) == 0)
			return 1;
	return 0;
}

/* user:password@host in a URL: where the password begins, or NULL. */
static const char *password_in_url(const char *value)
{
	const char *scheme = strstr(value, "://"), *at, *colon;

	if (!scheme || !(at = strchr(scheme + 3, '@')) ||
	    memchr(scheme + 3, '/', (size_t)(at - scheme - 3)))
		return NULL;
	colon = memchr(scheme + 3, ':', (size_t)(at - scheme - 3));
	return colon ? colon + 1 : NULL;
}

size_t secret_from(const char *name, const char *value)
{
	const char *password = password_in_url(value);
	size_t n = strlen(value);

	if (*name && names_a_secret(name, name + strlen(name)) &&
	    (value[0] != '-' || value[1] != '-'))
		return 0;
	for (const char *p = value; *p; p++) {
		const char *start = p;
		if (p == password || looks_secret(value, p))
			return (size_t)(p - value);
		if (*p != '=' && *p != ':' &&
		    !(*p == ' ' && p > value && isalpha((unsigned char)p[-1])))
			continue;
		/* a name and what separates it from its value */
		while (start > value && !strchr(" ,;{}[]\"'&?", start[-1]))
			start--;
		if (*p == ':' && p > value && p[-1] == '"')
			for (start = p - 1; start > value && start[-1] != '"'; start--)
				;
		if (start < p && names_a_secret(start, p))
			return (size_t)(p - value) + 1 < n ? (size_t)(p - value) + 1 : n;
	}
	return n;
}
