/* Categories of live blocks (category.def). */
#ifndef MEMTRACE_CATEGORY_H
#define MEMTRACE_CATEGORY_H

enum category {
#define CATEGORY(id, key, title, ansi) CATEGORY_##id,
#include "attribution/category.def"
#undef CATEGORY
	CATEGORIES
};

/* All categories but those that stay from step to step. */
static inline int category_is_of_pass(unsigned category)
{
	return category == CATEGORY_ACTIVATIONS || category == CATEGORY_TEMPORARIES ||
	       category == CATEGORY_INPUTS || category == CATEGORY_OTHER;
}

const char *category_key(enum category c);   /* in JSON */
const char *category_title(enum category c); /* for people */
const char *category_ansi(enum category c);  /* on a terminal */

#endif
