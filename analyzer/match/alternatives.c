#include "match/alternatives.h"

#include "readers/derive.h"
#include "readers/native.h"
#include "util/util.h"

#include <string.h>

const struct alternatives alternatives[] = {
#define ALTERNATIVES(key, explain, meaning, search, when) \
	{ CONFIG_##key, explain, meaning, search },
#include "match/alternatives.def"
#undef ALTERNATIVES
};
const size_t alternatives_count = ARRAY_SIZE(alternatives);

int alternatives_are_searched(enum config_field f)
{
	for (size_t i = 0; i < alternatives_count; i++)
		if (alternatives[i].field == f && *alternatives[i].search)
			return 1;
	return 0;
}

int alternatives_apply(const struct config *c, size_t row)
{
	const int when[] = {
#define ALTERNATIVES(key, explain, meaning, search, when) when,
#include "match/alternatives.def"
#undef ALTERNATIVES
	};

	return when[row];
}

int alternatives_next(const char **at, char word[ALTERNATIVE_LENGTH])
{
	size_t length = strcspn(*at, " ");

	if (!length)
		return 0;
	if (length >= ALTERNATIVE_LENGTH)
		BUG("an alternative is too long");
	memcpy(word, *at, length);
	word[length] = '\0';
	*at += length + ((*at)[length] == ' ');
	return 1;
}

int alternative_set(struct config *c, enum config_field f, const char *value, const char *origin)
{
	struct err e = { 0 };

	config_unset(c, f);
	if (strcmp(value, "~") && config_set(c, config_name(f), value, origin, &e) < 0)
		return -1;
	/* positions follow the length, where the model learns them */
	if (f == CONFIG_seq_length && config_has(c, CONFIG_max_position_embeddings) &&
	    c->max_position_embeddings < c->seq_length &&
	    config_set(c, "max_position_embeddings", value, origin, &e) < 0)
		return -1;
	return config_derive(c, &e);
}
