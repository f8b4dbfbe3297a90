#define _GNU_SOURCE
#include "simulate/store_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct store_entry *store_find(const struct store *s, const char *key)
{
	struct store_entry *e;

	HASH_FIND_STR(s->entries, key, e);
	return e;
}

struct store_entry *store_make(struct store *s, const char *key)
{
	struct store_entry *e = store_find(s, key);

	if (!e) {
		e = xcalloc(1, sizeof(*e));
		e->key = xstrdup(key);
		HASH_ADD_KEYPTR(hh, s->entries, e->key, strlen(e->key), e);
	}
	return e;
}

static void set(struct store_entry *e, const void *value, size_t length)
{
	e->value.length = 0;
	buf_add(&e->value, value, length);
}

struct store_entry *store_set(struct store *s, const char *key, const void *value, size_t length)
{
	struct store_entry *e = store_make(s, key);

	set(e, value, length);
	if (s->ranks > 1)
		board_note(&s->board, key, value, length);
	return e;
}

int64_t store_drop(struct store *s, const char *key)
{
	struct store_entry *e = store_find(s, key);

	if (!e)
		return 0;
	HASH_DEL(s->entries, e);
	buf_release(&e->value);
	free(e->key);
	free(e);
	return 1;
}

void store_drop_all(struct store *s)
{
	while (s->entries)
		store_drop(s, s->entries->key);
}

size_t store_count(const struct store *s)
{
	return HASH_COUNT(s->entries);
}

int64_t store_add(struct store *s, const char *key, int64_t amount)
{
	struct store_entry *e = store_make(s, key);
	char text[32];
	int64_t value = e->value.length ? strtoll(e->value.text, NULL, 10) : 0;

	/* A barrier: a rank that reads without adding waits for the others. If all ranks that run
	 * have arrived, the absent ones arrive: one by one for a rank alone (old barriers poll), or
	 * all at once, because no poll of another rank may miss the number. */
	if (!amount && value > 0 && value % s->world && s->ranks == 1)
		amount = 1;
	else if (!amount && (size_t)(value % s->world) == s->ranks)
		amount = s->world - (int64_t)s->ranks;
	if (__builtin_add_overflow(value, amount, &value))
		value = INT64_MAX;
	set(e, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
	return value;
}

/* ---- values of absent ranks */

/* Do the two differ in exactly one number? */
static int differ_in_number(const char *a, const char *b)
{
	int numbers = 0;

	while (*a || *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t m = strspn(a, "0123456789"), n = strspn(b, "0123456789");

			numbers += m != n || memcmp(a, b, m);
			a += m;
			b += n;
		} else if (*a++ != *b++) {
			return 0;
		}
	}
	return numbers == 1;
}

static const struct store_entry *find_other_number(const struct store *s, const char *key)
{
	for (const struct store_entry *e = s->entries; e; e = e->hh.next)
		if (!e->is_emulated && differ_in_number(e->key, key))
			return e;
	return NULL;
}

/*
 * If a rank has set the same key under another number, the absent rank gets the same value.
 * Otherwise the key is a communicator's id, which is only compared: a random one.
 */
struct store_entry *store_emulate(struct store *s, const char *key)
{
	const struct store_entry *same = find_other_number(s, key);
	struct store_entry *e = store_make(s, key);
	char id[UNIQUE_ID];

	e->is_emulated = 1;
	s->emulated++;
	free(s->last_key);
	s->last_key = xstrdup(key);
	if (same && !(s->ranks > 1 && same->value.length == UNIQUE_ID)) {
		set(e, same->value.text, same->value.length);
		return e;
	}
	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		memset(id, (int)(s->emulated & 0xff), sizeof(id));
	store_set(s, key, id, sizeof(id));
	return e;
}
