#include "category.h"

static const struct {
	const char *key, *title, *ansi, *rgb;
} categories[] = {
#define CATEGORY(id, key, title, ansi, rgb) { key, title, ansi, rgb },
#include "category.def"
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

const char *category_rgb(enum category c)
{
	return categories[c].rgb;
}
