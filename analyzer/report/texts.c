#include "report/texts.h"

#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

struct held_text {
	UT_hash_handle hh;
	char *text;
};

struct texts {
	struct held_text *all;
};

struct texts *texts_new(void)
{
	return xcalloc(1, sizeof(struct texts));
}

void texts_free(struct texts *t)
{
	if (!t)
		return;
	for (const struct held_text *x = t->all; x; x = x->hh.next)
		free(x->text);
	HASH_RELEASE(t->all);
	free(t);
}

char *texts_share(struct texts *t, char *text)
{
	size_t length = strlen(text);
	struct held_text *x;

	HASH_FIND(hh, t->all, text, length, x);
	if (x) {
		free(text);
		return x->text;
	}
	x = xcalloc(1, sizeof(*x));
	x->text = xrealloc(text, length + 1, 1);
	HASH_ADD_KEYPTR(hh, t->all, x->text, length, x);
	return x->text;
}
