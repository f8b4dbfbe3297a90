#include "attribution/category.h"

static const struct {
	const char *key, *title, *ansi;
} categories[] = {
#define CATEGORY(id, key, title, ansi) { key, title, ansi },
#include "attribution/category.def"
#undef CATEGORY
};

const char *category_key(enum category c)
{
	return categories[c].key;
}

const char *category_title(enum category c)
{
	return categories[c].title;
}

const char *category_ansi(enum category c)
{
	return categories[c].ansi;
}
